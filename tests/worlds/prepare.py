#!/usr/bin/env python3
"""Writes the image sets of the recorded worlds as NPZ files.

    python3 tests/worlds/prepare.py FOLDER [PNEUMONIA.npz]

Needs numpy, Pillow, scikit-learn and mlxtend (PyPI), and Debian's packages
dataset-fashion-mnist, fonts-dejavu-core, fonts-liberation, fonts-freefont-ttf,
fonts-noto-core, fonts-lato, fonts-open-sans, fonts-linuxlibertine,
oxygen-icon-theme, tango-icon-theme, gnome-icon-theme, mate-icon-theme,
plasma-workspace-wallpapers and espeak-ng; fragments are of files that the
machine has. PNEUMONIA.npz is MedMNIST's pneumoniamnist.npz. A set whose
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


def scripts(folder):
    """Which script a character is of: hundreds of characters a class."""
    from PIL import Image, ImageDraw, ImageFont
    blocks = {  # of NotoSans: font, first and last code point
        "": [(0x41, 0x17F), (0x391, 0x3CE), (0x400, 0x4FF)], "Armenian": [(0x531, 0x586)],
        "Hebrew": [(0x5D0, 0x5EA)], "Arabic": [(0x620, 0x64A)], "Devanagari": [(0x904, 0x939)],
        "Bengali": [(0x985, 0x9B9)], "Tamil": [(0xB85, 0xBB9)], "Thai": [(0xE01, 0xE2E)],
        "Georgian": [(0x10A0, 0x10FF)], "Ethiopic": [(0x1200, 0x135A)]}
    rng = np.random.default_rng(4)
    images, labels, kind = [], [], 0
    for family, ranges in blocks.items():
        paths = sorted(glob.glob(f"/usr/share/fonts/**/NotoSans{family}-*.ttf", recursive=True))
        fonts = [ImageFont.truetype(path, 18, layout_engine=ImageFont.Layout.BASIC) for path in paths]
        for first, last in ranges:
            for _ in range(320):
                letter = chr(rng.integers(first, last + 1))
                image = Image.new("L", (28, 28), int(rng.integers(0, 60)))
                place = (14 + rng.integers(-4, 5), 14 + rng.integers(-4, 5))
                ImageDraw.Draw(image).text(place, letter, 230, fonts[rng.integers(len(fonts))], anchor="mm")
                noisy = np.asarray(image, float) + rng.normal(0, 25, (28, 28))
                images.append(noisy.clip(0, 255).astype(np.uint8))
                labels.append(kind)
            kind += 1
    write(folder, "scripts", images, labels)


def textures(folder):
    """Gaussian random fields: eight classes of slope and direction of the spectrum."""
    rng = np.random.default_rng(5)
    y, x = np.meshgrid(np.fft.fftfreq(28), np.fft.fftfreq(28), indexing="ij")
    images, labels = [], []
    for i in range(3200):
        label = i % 8
        slope = 0.9 + 0.35 * (label % 4) + rng.normal(0, 0.1)
        angle = 0.4 + 0.9 * (label // 4) + rng.normal(0, 0.25)
        along = x * np.cos(angle) + y * np.sin(angle)
        across = 1.6 * (y * np.cos(angle) - x * np.sin(angle))
        spectrum = (along**2 + across**2 + 1e-3) ** (-slope / 2)
        field = np.fft.ifft2(np.fft.fft2(rng.normal(size=(28, 28))) * spectrum).real
        field = 128 + 45 * (field - field.mean()) / field.std()
        images.append(field.clip(0, 255).astype(np.uint8))
        labels.append(label)
    write(folder, "textures", images, labels)


def shapes(folder):
    """Polygons of three, four and six corners, stars of four, five and seven, in colour."""
    from PIL import Image, ImageDraw
    rng = np.random.default_rng(6)
    images, labels = [], []
    for i in range(3200):
        label = i % 6
        corners, star = [3, 4, 6, 4, 5, 7][label], label >= 3
        image = Image.fromarray(rng.integers(60, 190, (4, 4, 3)).astype(np.uint8)).resize((32, 32), Image.BICUBIC)
        draw = ImageDraw.Draw(image)
        for _ in range(2):
            draw.line([tuple(rng.integers(0, 32, 2)) for _ in range(2)], tuple(rng.integers(0, 256, 3)), 1)
        count = corners * 2 if star else corners
        turn, size = rng.uniform(0, 6.3), rng.uniform(9, 14)
        radii = size * np.where(np.arange(count) % 2, 0.45, 1.0) if star else np.full(count, size)
        middle = 16 + rng.uniform(-2, 2, 2)
        angles = turn + np.arange(count) * 2 * np.pi / count
        points = [tuple(middle + r * np.array([np.cos(a), np.sin(a)])) for r, a in zip(radii, angles)]
        draw.polygon(points, fill=tuple(rng.integers(0, 256, 3)))
        noisy = np.asarray(image, float) + rng.normal(0, 12, (32, 32, 3))
        images.append(noisy.clip(0, 255).astype(np.uint8))
        labels.append(label)
    write(folder, "shapes", images, labels)


def fractals(folder):
    """Attractors of iterated functions (FractalDB, Kataoka et al. 2020): twelve systems, perturbed."""
    rng = np.random.default_rng(8)
    systems = []
    while len(systems) < 12:
        maps = rng.uniform(-1, 1, (3, 2, 3))
        maps[:, :, :2] *= 0.8 / np.maximum(0.8, np.linalg.svd(maps[:, :, :2])[1][:, :1, None])
        systems.append(maps)
    images, labels = [], []
    for i in range(3200):
        label = i % len(systems)
        maps = systems[label] + rng.normal(0, 0.14, (3, 2, 3))
        points = np.zeros((64, 2))
        picture = np.zeros((28, 28))
        visited = []
        for step in range(40):
            chosen = maps[rng.integers(0, 3, 64)]
            points = (chosen[:, :, :2] @ points[:, :, None])[:, :, 0] + chosen[:, :, 2]
            if step > 8:
                visited.append(points)
        visited = np.concatenate(visited)
        low, high = visited.min(0), visited.max(0)
        place = ((visited - low) / (high - low + 1e-9) * 27).round().astype(int)
        np.add.at(picture, (place[:, 0], place[:, 1]), 60)
        picture = picture + rng.normal(0, 50, (28, 28))
        images.append(picture.clip(0, 255).astype(np.uint8))
        labels.append(label)
    write(folder, "fractals", images, labels)


def counts(folder):
    """How many cells, one to eight, of different size and brightness lie in the picture."""
    rng = np.random.default_rng(9)
    y, x = np.mgrid[0:28, 0:28]
    images, labels = [], []
    for i in range(3200):
        label = i % 8
        picture = rng.normal(40, 22, (28, 28))
        for _ in range(label + 1):
            middle, radius = rng.uniform(3, 25, 2), rng.uniform(1.4, 2.8)
            distance = ((x - middle[0]) ** 2 + (y - middle[1]) ** 2) / radius**2
            picture += rng.uniform(90, 200) * np.exp(-(distance**2) / 2)
        images.append(picture.clip(0, 255).astype(np.uint8))
        labels.append(label)
    write(folder, "counts", images, labels)


def fragments(folder):
    """784 bytes of files of eight types."""
    kinds = ["/usr/lib/x86_64-linux-gnu/*.so*", "/usr/lib/python3/**/*.py", "/usr/share/man/man1/*.gz",
             "/usr/share/locale/*/LC_MESSAGES/*.mo", "/usr/share/fonts/**/*.ttf", "/usr/share/icons/**/*.png",
             "/usr/share/perl/**/*.pm", "/usr/share/icons/**/*.svg"]
    rng = np.random.default_rng(10)
    images, labels = [], []
    for label, kind in enumerate(kinds):
        paths = [path for path in sorted(glob.glob(kind, recursive=True))
                 if pathlib.Path(path).is_file() and pathlib.Path(path).stat().st_size > 1600]
        if not paths:
            raise FileNotFoundError(f"no files {kind}")
        for _ in range(450):
            path = pathlib.Path(paths[rng.integers(len(paths))])
            with path.open("rb") as file:
                file.seek(int(rng.integers(256, path.stat().st_size - 784)))
                images.append(np.frombuffer(file.read(784), np.uint8).reshape(28, 28))
            labels.append(label)
    write(folder, "fragments", images, labels)


def photos(folder):
    """Which of the desktop's pictures a tile of 32 by 32 is from; tiles do not overlap."""
    from PIL import Image
    paths = sorted(path for path in glob.glob("/usr/share/wallpapers/*/contents/images/*.[jp][pn]g")
                   if not pathlib.Path(path).is_symlink() and pathlib.Path(path).stat().st_size > 200000)
    if not paths:
        raise FileNotFoundError("no pictures under /usr/share/wallpapers")
    images, labels = [], []
    for label, path in enumerate(paths):
        picture = np.asarray(Image.open(path).convert("RGB").resize((640, 416), Image.LANCZOS))
        for row in range(0, 416, 32):
            for column in range(0, 640, 32):
                images.append(picture[row:row + 32, column:column + 32])
                labels.append(label)
    write(folder, "photos", images, labels, 0, *LARGE)


def spoken(folder):
    """Spectrograms (28 bands, 28 moments) of fourteen words in the voices of espeak-ng."""
    import subprocess
    words = "yes no up down left right on off stop go bed bird cat dog".split()
    voices = sorted(pathlib.Path(path).name for path in
                    glob.glob("/usr/lib/*/espeak-ng-data/voices/!v/*"))
    if not voices:
        raise FileNotFoundError("espeak-ng is not installed")
    rng = np.random.default_rng(11)
    images, labels = [], []
    for i in range(4900):
        label = i % len(words)
        accent = ["en-us", "en-gb", "en-gb-scotland", "en-029"][rng.integers(4)]
        sound = subprocess.run(
            ["espeak-ng", "-v", f"{accent}+{voices[rng.integers(len(voices))]}", "-s", str(rng.integers(110, 260)),
             "-p", str(rng.integers(10, 90)), "--stdout", words[label]], capture_output=True, check=True).stdout
        samples = np.frombuffer(sound[44:44 + (len(sound) - 44) // 2 * 2], np.int16).astype(float)
        samples = np.roll(np.resize(np.append(samples, np.zeros(20000)), 18000), rng.integers(0, 2500))
        samples += rng.normal(0, 0.15 * samples.std(), len(samples))
        frames = np.lib.stride_tricks.sliding_window_view(samples, 1024)[:: (len(samples) - 1024) // 27][:28]
        power = np.abs(np.fft.rfft(frames * np.hanning(1024), axis=1)) ** 2
        edges = np.geomspace(5, 400, 29).astype(int)
        edges = np.maximum(edges, edges[0] + np.arange(29))
        bands = np.log(np.add.reduceat(power, edges[:-1], axis=1) + 1).T
        bands = (bands - bands.min()) / (bands.max() - bands.min()) * 255
        images.append(bands.astype(np.uint8))
        labels.append(label)
    write(folder, "spoken", images, labels, 0, *LARGE)


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
    for make in (fashion, digits, mnist, letters, scripts, textures, shapes, fractals, counts, fragments, photos,
                 spoken, icons):
        try:
            make(folder)
        except (ImportError, OSError) as error:
            print(f"{make.__name__}: left out: {error}", file=sys.stderr)
    if len(sys.argv) > 2:
        pneumonia(folder, sys.argv[2])


if __name__ == "__main__":
    main()
