"""Train a regression model; a thread keeps statistics of the errors for a dashboard."""

import argparse
import threading
import time

import numpy as np
import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn

DEVICE = "cuda"
WIDTH, TARGETS = 2048, 64


class ErrorStatistics:
    """Statistics over the latest errors; `add` is called by the training, `refresh` by a thread."""

    def __init__(self, size):
        self.errors = np.random.default_rng(0).standard_normal(size).astype(np.float32) ** 2
        self.end = 0
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.latest = {}
        self.thread = threading.Thread(target=self.run, name="statistics", daemon=True)
        self.thread.start()

    def add(self, values):
        """Put errors in the place of the oldest ones."""
        with self.lock:
            places = (self.end + np.arange(len(values))) % len(self.errors)
            self.errors[places] = values
            self.end = (self.end + len(values)) % len(self.errors)

    def refresh(self):
        """Mean, spread and percentiles of all errors."""
        with self.lock:
            ordered = np.sort(self.errors)
            shares = {f"p{share}": float(ordered[len(ordered) * share // 100]) for share in (1, 10, 50, 90, 99)}
            self.latest = {"mean": float(ordered.mean()), "spread": float(ordered.std()), **shares}

    def run(self):
        """Refresh until the end of the training."""
        while not self.stopped.wait(0.004):
            self.refresh()

    def close(self):
        self.stopped.set()
        self.thread.join()


def train(model, inputs, targets, steps, statistics):
    """Train on batches in turn."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(steps):
        batch = step % len(inputs)
        errors = (model(inputs[batch]).float() - targets[batch]).square()
        errors.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        statistics.add(errors.detach().mean(1).cpu().numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--kept", type=int, default=1_000_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    layers = [part for _ in range(8) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, TARGETS)).to(DEVICE, torch.bfloat16)
    inputs = torch.randn(4, options.rows, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    targets = torch.randn(4, options.rows, TARGETS, device=DEVICE)
    statistics = ErrorStatistics(options.kept)
    train(model, inputs, targets, 2, statistics)
    began = time.perf_counter()
    train(model, inputs, targets, options.steps, statistics)
    seconds = time.perf_counter() - began
    statistics.close()
    print(f"{options.steps} steps in {seconds:.2f} s, median error {statistics.latest['p50']:.3f}")


if __name__ == "__main__":
    main()
