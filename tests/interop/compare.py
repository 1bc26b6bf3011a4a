"""Logits of exported models in PyTorch and onnxruntime against `dtune predict`.

    compare.py DTUNE

Logits are compared as log-probabilities: those that dtune prints determine its
logits up to a constant. Both compute in single precision, in another order of
sums: differences of up to 1e-5 of the largest magnitude are rounding (measured:
below 1e-6).
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
import torch

TOLERANCE = 1e-5
IMAGES = 16

# Name, channels, image size, `model:`.
NETWORKS = [
    ("cnn-small", 1, (28, 28), "{ arch: cnn-small, width: 8 }"),
    ("lenet", 1, (28, 28), "{ arch: lenet }"),
    ("resnet18", 3, (20, 24), "{ arch: resnet18, width: 8 }"),
    ("resnet18, large images", 3, (72, 80), "{ arch: resnet18, width: 4 }"),
    ("resnet50", 3, (16, 16), "{ arch: resnet50, width: 8 }"),
    ("wide-resnet", 3, (16, 16), "{ arch: wide-resnet, width: 1, depth: 10, dropout: 0.3 }"),
    (
        "layers of every kind",
        2,
        (14, 18),
        """
  layers:
    - conv: { channels: 8, kernel: 5, stride: 1, padding: 2 }
    - batch_norm
    - relu
    - conv: { channels: 8, groups: 2, bias: false }
    - group_norm: 4
    - gelu
    - max_pool: { kernel: 3, stride: 2, padding: 1 }
    - residual:
        body:
          - conv: 12
          - tanh
          - residual: [ { conv: { channels: 12, kernel: 1 } }, batch_norm ]
        shortcut:
          - conv: { channels: 12, kernel: 1, name: short-cut }
    - avg_pool: { kernel: 3, stride: 2, padding: 1 }
    - dropout: 0.1
    - linear: { channels: 20, name: forward }
    - batch_norm
    - group_norm: 5
    - tanh
    - flatten
    - linear: 16
    - gelu""",
    ),
    (
        "global average",
        3,
        (9, 11),
        "{ layers: [ { conv: 6 }, relu, { avg_pool: 2 }, global_avg_pool, { linear: 5 } ] }",
    ),
]

RECIPE = """
study: interop
data: {{ kind: synthetic, size: [{height}, {width}], channels: {channels},
         classes: 5, samples: 192, difficulty: 0.2 }}
model: {model}
train: {{ epochs: 2, batch_size: 16, device: cpu }}
space: {{ lr: {{ log: [0.001, 0.002] }} }}
sampler: random
scheduler: fifo
budget: {{ trials: 1 }}
slots: 1
"""


def run(dtune, folder, *words):
    done = subprocess.run([dtune, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"dtune {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def load_module(path):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def onnx_logits(path, images):
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return torch.tensor(session.run(["logits"], {"images": images})[0]).double()


def check_card(dtune, folder, images, logits):
    """The Python lines of the model card, as they stand there, give these logits."""
    run(dtune, folder, "export", "r.files/model.safetensors", "--card", "model.md")
    lines = (folder / "model.md").read_text().split("```python\n")[1].split("```")[0]
    shown = {"images": images}
    sys.modules.pop("model", None)
    sys.path.insert(0, str(folder))
    here = os.getcwd()
    os.chdir(folder)
    try:
        exec(lines, shown)
    finally:
        os.chdir(here)
        sys.path.remove(str(folder))
    assert torch.equal(shown["net"](shown["model"].preprocess(images)).double(), logits)
    assert torch.equal(shown["probabilities"].double(), logits.float().softmax(1).double())


def difference(dtune, folder, channels, size, model):
    height, width = size
    (folder / "r.yaml").write_text(
        RECIPE.format(height=height, width=width, channels=channels, model=model))
    run(dtune, folder, "run", "r.yaml", "--quiet")
    run(dtune, folder, "export", "r.files/model.safetensors", "--pytorch", "model.py")
    random = numpy.random.default_rng(1)
    images = random.integers(0, 256, (IMAGES, height, width, channels), numpy.uint8)
    numpy.savez(folder / "images.npz", images=images)
    answer = json.loads(run(dtune, folder, "predict", "r.files/model.safetensors", "images.npz", "--json"))
    module = load_module(folder / "model.py")
    assert module.CLASSES == answer["classes"]
    ours = torch.tensor([list(one["probabilities"].values()) for one in answer["predictions"]],
                        dtype=torch.float64).log()
    net = module.load(folder / "r.files/model.safetensors")
    with torch.no_grad():
        logits = net(module.preprocess(images)).double()
    check_card(dtune, folder, images, logits)
    run(dtune, folder, "export", "r.files/model.safetensors", "--onnx", "model.onnx")
    off = lambda theirs: ((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1)).item()
    return off(logits.log_softmax(1)), off(onnx_logits(folder / "model.onnx", images).log_softmax(1))


def main():
    dtune = str(pathlib.Path(sys.argv[1]).resolve())
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, onnxruntime {onnxruntime.__version__}, tolerance {TOLERANCE}")
    worst = 0
    for name, channels, size, model in NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            both = difference(dtune, pathlib.Path(folder), channels, size, model)
        print(f"{name:<24}{both[0]:.1e}  {both[1]:.1e}", flush=True)
        for off in both:
            # Not finite is worse than anything.
            worst = max(worst, off if off == off else float("inf"))
    if worst > TOLERANCE:
        sys.exit(f"the logits differ by {worst:.1e}")


main()
