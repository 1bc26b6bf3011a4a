#!/usr/bin/env python3
"""Networks that users train otherwise, for tests/gpu/run: as a dtune recipe, and
as PyTorch trains them.

    anchors.py NETWORK SAMPLES DEVICE [SHRINK]

prints one JSON object, {"images_per_second": ..., "detail": "..."}: the faster
of PyTorch with torch.compile in its default mode and in "reduce-overhead",
which records CUDA graphs; bfloat16 on a GPU, channels-last, images resident on
the device, SGD in one kernel. Needs a Python with torch.
"""
import json
import pathlib
import statistics
import sys
import time


def conv(channels, kernel=3, stride=1, padding=None):
    return {"kind": "conv", "channels": channels, "kernel": kernel,
            "stride": stride, "bias": False,
            "padding": kernel // 2 if padding is None else padding}


def of(kind, **fields):
    return {"kind": kind, "channels": 0, "kernel": 0, "stride": 0, "padding": 0,
            "bias": True, **fields}


def max_pool(kernel):
    return of("max_pool", kernel=kernel, stride=kernel)


def resnet18(width):
    """As CIFAR's (He et al. 2015, arXiv 1512.03385): 3x3 stem, no pooling."""
    layers = [conv(width), of("batch_norm"), of("relu")]
    before = width
    for stage in range(4):
        now = width << stage
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            body = [conv(now, stride=stride), of("batch_norm"), of("relu"),
                    conv(now), of("batch_norm")]
            same = stride == 1 and before == now
            shortcut = [] if same else [conv(now, 1, stride), of("batch_norm")]
            layers += [of("residual", body=body, shortcut=shortcut), of("relu")]
            before = now
    return layers + [of("global_avg_pool"), of("linear", channels=10)]


def airbench94(width):
    """The network of Jordan 2024 (arXiv 2404.00498), which learns CIFAR-10 to
    94% in seconds."""
    layers = [conv(24, 2, padding=0), of("gelu")]
    for channels in (width, 4 * width, 4 * width):
        layers += [conv(channels), max_pool(2), of("batch_norm"), of("gelu"),
                   conv(channels), of("batch_norm"), of("gelu")]
    return layers + [max_pool(3), of("flatten"), of("linear", channels=10)]


# What trains it, samples of a batch, and what dtune's images/s are to be over
# PyTorch's.
NETWORKS = {"resnet18": (resnet18, 128, 1.5), "airbench94": (airbench94, 1024, 0.6)}


def make(name, shrink):
    """Layers and batch size; `shrink` divides both, to try scripts."""
    layers, batch, _ = NETWORKS[name]
    return layers(64 // shrink), batch // shrink


def as_recipe(layers):
    """What a recipe has as `layers:`; JSON is YAML."""
    listed = []
    for layer in layers:
        kind = layer["kind"]
        if kind == "residual":
            fields = {part: json.loads(as_recipe(layer[part]))
                      for part in ("body", "shortcut")}
        elif kind == "conv":
            fields = {key: layer[key] for key in
                      ("channels", "kernel", "stride", "padding", "bias")}
        else:
            fields = layer["channels"] or layer["kernel"]
        listed.append({kind: fields} if fields else kind)
    return json.dumps(listed)


def measure(torch, model, images, labels, batch, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9,
                                weight_decay=1e-4, fused=True)
    loss_function = torch.nn.CrossEntropyLoss()
    device = images.device.type
    count = len(images) // batch * batch
    rates = []
    for _ in range(epochs):
        began = time.monotonic()
        order = torch.randperm(len(images), device=device)[:count]
        for part in order.split(batch):
            x = images[part].to(torch.float32).sub(73).div(90)
            x = x.contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                loss = loss_function(model(x), labels[part])
            loss.backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        rates.append(count / (time.monotonic() - began))
    return statistics.median(rates[1:])  # the first one compiles


def main():
    name, samples, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    shrink = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    try:
        import torch
    except ImportError:
        sys.exit("this Python has no torch")
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
    from train_baseline import make_layers

    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    layers, batch = make(name, shrink)
    images = torch.randint(0, 256, (samples, 3, 32, 32), dtype=torch.uint8)
    images = images.to(device)
    labels = torch.randint(0, 10, (samples,), device=device)
    rates = {}
    for mode in ("default", "reduce-overhead"):
        model, _ = make_layers(layers, 3)
        model(torch.zeros(2, 3, 32, 32))
        model = model.to(device).to(memory_format=torch.channels_last)
        rates[mode] = measure(torch, torch.compile(model, mode=mode), images,
                              labels, batch, epochs=4)
    shown = ", ".join(f"{mode} {rate:.0f}" for mode, rate in rates.items())
    print(json.dumps({"images_per_second": max(rates.values()),
                      "detail": f"PyTorch {torch.__version__}: {shown}"}))


if __name__ == "__main__":
    main()
