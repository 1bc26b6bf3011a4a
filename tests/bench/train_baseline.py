#!/usr/bin/env python3
"""Images a second of the usual PyTorch loop on cnn-small, one thread.

Prints one JSON object: {"images_per_second": ..., "torch": "..."}. Needs a
Python with torch; bench_train runs it where there is one (DTUNE_PYTHON names
it, else python3).
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

BATCH = 128
BATCHES_PER_ROUND = 16
ROUNDS = 5


class InMemory(Dataset):
    """Noise of Fashion-MNIST's size, handed out as torchvision's set is."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randint(
            0, 256, (count, 1, 28, 28), generator=generator, dtype=torch.uint8
        )
        self.labels = torch.randint(0, 10, (count,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index].float().div(255)
        return image.sub(0.286).div(0.353), self.labels[index]


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.25),
        nn.Linear(128, 10),
    )


def train(model, optimizer, batches, count):
    loss_function = nn.CrossEntropyLoss()
    for _ in range(count):
        images, labels = next(batches)
        optimizer.zero_grad()
        loss = loss_function(model(images), labels)
        loss.backward()
        optimizer.step()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    loader = DataLoader(InMemory(60000), batch_size=BATCH, shuffle=True)
    model = make_model()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4
    )
    batches = iter(loader)
    train(model, optimizer, batches, 4)
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        train(model, optimizer, batches, BATCHES_PER_ROUND)
        rates.append(BATCH * BATCHES_PER_ROUND / (time.perf_counter() - start))
    print(json.dumps({"images_per_second": statistics.median(rates),
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
