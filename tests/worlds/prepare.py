#!/usr/bin/env python3
"""Writes the image sets of the recorded worlds as NPZ files.

    python3 tests/worlds/prepare.py FOLDER [PNEUMONIA.npz]

Needs numpy, Pillow, scikit-learn and mlxtend (PyPI), and Debian's packages
dataset-fashion-mnist, fonts-dejavu-core, fonts-liberation, fonts-freefont-ttf,
fonts-noto-core, fonts-lato, fonts-open-sans, fonts-linuxlibertine,
oxygen-icon-theme, tango-icon-theme, gnome-icon-theme, mate-icon-theme and
faenza-icon-theme. PNEUMONIA.npz is MedMNIST's pneumoniamnist.npz. A set whose
source is missing is left out with a line that says so. The same sources give
the same files.
"""

import glob
import gzip
import pathlib
import sys

import numpy as np

# Images for training and for validation. Few: a world is 84 trainings.
TRAINING, VALIDATION = 2000, 1000
# Sets named *-large have more to validate with: what judges has less noise.
LARGE = 1500, 3400


def write(folder, name, images, labels, noise=0.0, training=TRAINING, validation=None):
    """A random split; a share `noise` of the training labels is replaced."""
    rng = np.random.default_rng(7)
    order = rng.permutation(len(images))
    validation = validation or min(VALIDATION, len(images) // 3)
    chosen = order[: min(len(images), training + validation)]
    images, labels = np.asarray(images)[chosen], np.asarray(labels)[chosen]
    classes, labels = np.unique(labels, return_inverse=True)
    labels = labels.astype(np.uint8)
    train_labels = labels[validation:].copy()
    wrong = rng.random(len(train_labels)) < noise
    train_labels[wrong] = rng.integers(0, len(classes), wrong.sum())
    np.savez_compressed(
        folder / f"{name}.npz",
        train_images=images[validation:], train_labels=train_labels,
        val_images=images[:validation], val_labels=labels[:validation],
        test_images=images[:validation], test_labels=labels[:validation])
    print(f"{name}: {len(train_labels)} + {validation} images, {len(classes)} classes")


def idx(path, header):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def fashion(folder):
    base = "/usr/share/datasets/fashion-mnist/train-"
    images = idx(base + "images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    labels = idx(base + "labels-idx1-ubyte.gz", 8)
    write(folder, "fashion", images[:12000], labels[:12000])
    tops = np.isin(labels, [0, 2, 4, 6])
    write(folder, "fashion-tops", images[tops][:8000], labels[tops][:8000])


def digits(folder):
    from sklearn.datasets import load_digits
    data = load_digits()
    small = (data.images * (255 / 16)).round().astype(np.uint8)
    images = np.pad(small.repeat(2, axis=1).repeat(2, axis=2), ((0, 0), (2, 2), (2, 2)))
    write(folder, "digits", images, data.target)


def mnist(folder):
    from mlxtend.data import mnist_data
    images, labels = mnist_data()
    images = images.reshape(-1, 28, 28).astype(np.uint8)
    write(folder, "mnist", images, labels)
    write(folder, "mnist-noisy", images, labels, noise=0.2)
    write(folder, "mnist-large", images, labels, 0, *LARGE)
    write(folder, "noisy-large", images, labels, 0.2, *LARGE)


def letters(folder):
    from PIL import Image, ImageDraw, ImageFont
    fonts = sorted(p for family in ("dejavu", "liberation", "freefont", "lato", "open-sans",
                                    "linux-libertine", "noto")
                   for p in glob.glob(f"/usr/share/fonts/**/{family}/*.[to]tf", recursive=True)
                   if "noto" not in p or "/NotoSans-" in p or "/NotoSerif-" in p)
    rng = np.random.default_rng(3)
    images, labels = [], []
    for path in fonts:
        font = ImageFont.truetype(path, 20)
        for label, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
            image = Image.new("L", (28, 28))
            offset = (14 + rng.integers(-3, 4), 14 + rng.integers(-3, 4))
            ImageDraw.Draw(image).text(offset, letter, 255, font, anchor="mm")
            image = image.rotate(float(rng.normal(0, 8)), Image.BILINEAR)
            noisy = np.asarray(image, float) + rng.normal(0, 40, (28, 28))
            images.append(noisy.clip(0, 255).astype(np.uint8))
            labels.append(label)
    write(folder, "letters", images, labels)


def icons(folder):
    from PIL import Image
    kinds = ["actions", "apps", "devices", "mimetypes", "places", "status"]
    images, labels = [], []
    for theme in ("oxygen/base/32x32", "Tango/32x32", "gnome/32x32", "mate/32x32"):
        for label, kind in enumerate(kinds):
            for path in sorted(glob.glob(f"/usr/share/icons/{theme}/{kind}/*.png")):
                if pathlib.Path(path).is_symlink():
                    continue  # the same picture under another name
                picture = Image.open(path).convert("RGBA").resize((32, 32))
                ground = Image.new("RGBA", (32, 32), (255, 255, 255, 255))
                images.append(np.asarray(Image.alpha_composite(ground, picture).convert("RGB")))
                labels.append(label)
    if not images:
        raise FileNotFoundError("no icon themes under /usr/share/icons")
    write(folder, "icons", images, labels)
    write(folder, "icons-large", images, labels, training=900, validation=1180)


def pneumonia(folder, path):
    data = np.load(path)
    images = np.concatenate([data["train_images"], data["val_images"]])
    labels = np.concatenate([data["train_labels"], data["val_labels"]]).ravel()
    write(folder, "pneumonia", images, labels)
    write(folder, "pneumonia-small", images, labels, training=600)
    write(folder, "pneumonia-large", images, labels, 0, *LARGE)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (fashion, digits, mnist, letters, icons):
        try:
            make(folder)
        except (ImportError, OSError) as error:
            print(f"{make.__name__}: left out: {error}", file=sys.stderr)
    if len(sys.argv) > 2:
        pneumonia(folder, sys.argv[2])


if __name__ == "__main__":
    main()
