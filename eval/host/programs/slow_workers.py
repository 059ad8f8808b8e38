"""Train a forecaster on smoothed readings of sensors, prepared by the workers of a loader."""

import argparse
import time

import numpy as np
import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda"
LENGTH, CHANNELS, AHEAD = 512, 6, 24


class SensorWindows(Dataset):
    """Windows of readings: gaps filled, outliers limited, smoothed; and the readings that follow."""

    def __init__(self, items):
        random = np.random.default_rng(0)
        self.readings = random.standard_normal((20000, CHANNELS)).cumsum(0).astype(np.float32)
        self.readings[random.random(self.readings.shape) < 0.02] = np.nan
        self.items = items

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        start = index * 37 % (len(self.readings) - LENGTH - AHEAD)
        window = self.readings[start : start + LENGTH + AHEAD].tolist()
        last, level = [0.0] * CHANNELS, [0.0] * CHANNELS
        for row in window:
            for channel, value in enumerate(row):
                if value != value:
                    value = last[channel]
                change = min(max(value - level[channel], -3.0), 3.0)
                level[channel] += 0.3 * change
                last[channel] = value
                row[channel] = level[channel]
        values = torch.tensor(window)
        return values[:LENGTH], values[LENGTH:]


class Forecaster(nn.Module):
    """A transformer over the readings of a window."""

    def __init__(self, width, layers):
        super().__init__()
        self.into = nn.Linear(CHANNELS, width)
        block = nn.TransformerEncoderLayer(width, 12, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, AHEAD * CHANNELS)

    def forward(self, windows):
        return self.head(self.blocks(self.into(windows)).mean(1)).unflatten(1, (AHEAD, CHANNELS))


def train(model, loader):
    """One pass over the items of the loader; its mean error."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    total = torch.zeros((), device=DEVICE)
    for windows, following in loader:
        windows = windows.to(DEVICE, torch.bfloat16, non_blocking=True)
        following = following.to(DEVICE, non_blocking=True)
        error = nn.functional.l1_loss(model(windows).float(), following)
        error.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += error.detach()
    return total.item() / max(len(loader), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=130)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Forecaster(width=768, layers=4).to(DEVICE, torch.bfloat16)
    train(model, DataLoader(SensorWindows(2 * options.rows), batch_size=options.rows, pin_memory=True))
    windows = SensorWindows(options.steps * options.rows)
    loader = DataLoader(windows, batch_size=options.rows, shuffle=True, num_workers=options.workers, pin_memory=True)
    began = time.perf_counter()
    error = train(model, loader)
    print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s, error {error:.3f}")


if __name__ == "__main__":
    main()
