"""Train a classifier of images on augmented tiles, which sixteen threads prepare."""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn

DEVICE = "cuda"
SIDE, CLASSES = 64, 32


class Tiles:
    """Tiles cut at random from large images, turned, made brighter or darker, and normalised."""

    def __init__(self, threads):
        self.images = np.random.default_rng(0).integers(0, 255, (8, 3, 512, 512), dtype=np.uint8)
        self.pool = ThreadPoolExecutor(threads)

    def augment(self, seed):
        """One tile and its class."""
        random = np.random.default_rng(seed)
        x, y = random.integers(0, 512 - SIDE, 2)
        tile = self.images[seed % len(self.images), :, x : x + SIDE, y : y + SIDE].astype(np.float32)
        tile = np.rot90(tile, random.integers(4), (1, 2)) * random.uniform(0.7, 1.3)
        for channel in tile:
            channel -= np.median(channel)
            channel /= channel.std() + 1.0
        return np.ascontiguousarray(tile), int(x * CLASSES // 512)

    def batch(self, step, rows):
        """The tiles of a step, prepared when they are asked for."""
        tiles, classes = zip(*self.pool.map(self.augment, range(step * rows, (step + 1) * rows)), strict=True)
        return torch.from_numpy(np.stack(tiles)).to(DEVICE), torch.tensor(classes, device=DEVICE)


def train(model, tiles, steps, rows):
    """Train; the mean loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    total = torch.zeros((), device=DEVICE)
    for step in range(steps):
        images, classes = tiles.batch(step, rows)
        loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.detach()
    return total.item() / max(steps, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    torch.manual_seed(0)
    sizes = [3, 128, 256, 512]
    layers = [part for a, b in pairwise(sizes) for part in (nn.Conv2d(a, b, 3, 2, 1), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 64, CLASSES)).to(DEVICE)
    tiles = Tiles(options.threads)
    train(model, tiles, 2, options.rows)
    began = time.perf_counter()
    loss = train(model, tiles, options.steps, options.rows)
    print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s, loss {loss:.3f}")


if __name__ == "__main__":
    main()
