#!/usr/bin/env python3
"""Images a second of the usual PyTorch loop on a network, one thread.

    train_baseline.py NETWORK.json

The file holds what bench_train writes: a list of layers, the size of images and
batches. Prints one JSON object: {"images_per_second": ..., "detail": "..."} of
the fastest of the default layout, channels-last and, where it works here (it
needs a C++ compiler), channels-last with torch.compile. Rates are of this
process's processor time; what compiles is not timed. Needs a Python with torch;
bench_train runs it where there is one (DTUNE_PYTHON names it, else python3).
"""
import json
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("this Python has no torch")
from torch import nn
from torch.utils.data import DataLoader, Dataset

COUNT = 6000


class InMemory(Dataset):
    """Noise, handed out as torchvision's sets are."""

    def __init__(self, channels, side):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randint(
            0, 256, (COUNT, channels, side, side), generator=generator,
            dtype=torch.uint8,
        )
        self.labels = torch.randint(0, 10, (COUNT,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index].float().div(255)
        return image.sub(0.286).div(0.353), self.labels[index]


class Residual(nn.Module):
    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def make_layer(layer, channels):
    kind, kernel = layer["kind"], layer["kernel"]
    window = (kernel, layer["stride"], layer["padding"])
    if kind == "conv":
        return nn.Conv2d(channels, layer["channels"], *window,
                         bias=layer["bias"])
    if kind == "linear":
        return nn.LazyLinear(layer["channels"])
    if kind == "residual":
        return Residual(make_layers(layer["body"], channels)[0],
                        make_layers(layer["shortcut"], channels)[0])
    simple = {
        "batch_norm": lambda: nn.BatchNorm2d(channels),
        "relu": nn.ReLU,
        "gelu": nn.GELU,
        "tanh": nn.Tanh,
        "max_pool": lambda: nn.MaxPool2d(*window),
        "avg_pool": lambda: nn.AvgPool2d(*window),
        "global_avg_pool": Mean,
        "flatten": nn.Flatten,
        "dropout": lambda: nn.Dropout(layer["p"]),
    }
    return simple[kind]()


def make_layers(layers, channels):
    """A module and the channels of what it returns."""
    modules = []
    for layer in layers:
        modules.append(make_layer(layer, channels))
        if layer["kind"] == "residual":
            channels = make_layers(layer["body"], channels)[1]
        channels = layer["channels"] or channels
    return nn.Sequential(*modules), channels


def train(model, optimizer, batches, count, layout):
    loss_function = nn.CrossEntropyLoss()
    for _ in range(count):
        images, labels = next(batches)
        images = images.contiguous(memory_format=layout)
        optimizer.zero_grad()
        loss = loss_function(model(images), labels)
        loss.backward()
        optimizer.step()


def endless(loader):
    while True:
        yield from loader


def measure(network, layout, compiled):
    data = InMemory(network["channels"], network["side"])
    loader = DataLoader(data, batch_size=network["batch"], shuffle=True,
                        drop_last=True)
    model, _ = make_layers(network["layers"], network["channels"])
    model(torch.zeros(2, network["channels"], network["side"],
                      network["side"]))
    model = model.to(memory_format=layout)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4
    )
    if compiled:
        model = torch.compile(model)
    batches = endless(loader)
    train(model, optimizer, batches, 2, layout)  # compiles
    rates = []
    for _ in range(network["rounds"]):
        start = time.process_time()
        train(model, optimizer, batches, network["batches"], layout)
        images = network["batch"] * network["batches"]
        rates.append(images / (time.process_time() - start))
    return statistics.median(rates)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    with open(sys.argv[1], encoding="utf-8") as file:
        network = json.load(file)
    plain, last = torch.contiguous_format, torch.channels_last
    rates = {"default layout": measure(network, plain, False),
             "channels-last": measure(network, last, False)}
    try:
        rates["torch.compile, channels-last"] = measure(network, last, True)
    except Exception as error:  # whatever its back end throws
        print(f"torch.compile: {error}", file=sys.stderr)
    shown = ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items())
    print(json.dumps({"images_per_second": max(rates.values()),
                      "detail": f"PyTorch {torch.__version__}: {shown}"}))


if __name__ == "__main__":
    main()
