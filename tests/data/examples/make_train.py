#!/usr/bin/env python3
"""Writes train.pt: what a training loop with DataParallel saves, as torch's own ImageNet example does.

    python3 make_train.py train.pt

A small convolutional classifier is trained for a few steps on fixed noise. The file is kept in the repository;
nothing here runs in the build or in the tests.
"""
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(nn.functional.max_pool2d(x, 2))))
        return self.fc(x.mean((2, 3)))


def main():
    torch.manual_seed(20)
    model = nn.DataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    images, labels = torch.randn(64, 3, 16, 16), torch.randint(10, (64,))
    best = 0.0
    for epoch in range(3):
        out = model(images)
        loss = nn.functional.cross_entropy(out, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        best = max(best, (out.argmax(1) == labels).float().mean().item() * 100)
    torch.save({
        "epoch": epoch + 1,
        "arch": "smallnet",
        "state_dict": model.state_dict(),
        "best_acc1": best,
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
    }, sys.argv[1])


if __name__ == "__main__":
    main()
