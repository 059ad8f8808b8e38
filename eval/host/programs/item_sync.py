"""Train a classifier and follow the gradients of each of its parameters."""

import argparse
import math
import time

import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn

DEVICE = "cuda"
WIDTH, CLASSES = 1024, 100


class Residual(nn.Module):
    """A layer added to its input."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + nn.functional.gelu(self.linear(self.norm(x)))


class GradientMonitor:
    """Running mean and spread of the size of each gradient, relative to its parameter."""

    def __init__(self, model, decay=0.98):
        self.parameters = dict(model.named_parameters())
        self.decay = decay
        self.mean = dict.fromkeys(self.parameters, 0.0)
        self.square = dict.fromkeys(self.parameters, 0.0)
        self.unusual = []

    def observe(self, step):
        """Take the gradients of this step into account; note those that leave their usual range."""
        for name, parameter in self.parameters.items():
            gradient = parameter.grad.square().sum().item()
            weight = parameter.detach().square().sum().item()
            largest = parameter.grad.abs().max().item()
            ratio = math.log10(math.sqrt(gradient) / (math.sqrt(weight) + 1e-8) + 1e-12)
            self.mean[name] = self.decay * self.mean[name] + (1 - self.decay) * ratio
            self.square[name] = self.decay * self.square[name] + (1 - self.decay) * ratio * ratio
            spread = math.sqrt(max(self.square[name] - self.mean[name] ** 2, 1e-12))
            if abs(ratio - self.mean[name]) > 6 * spread or not math.isfinite(largest):
                self.unusual.append((step, name, ratio))


def train(model, inputs, labels, steps):
    """Train on batches in turn."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    monitor = GradientMonitor(model)
    for step in range(steps):
        batch = step % len(inputs)
        loss = nn.functional.cross_entropy(model(inputs[batch]).float(), labels[batch])
        loss.backward()
        monitor.observe(step)
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return monitor


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rows", type=int, default=8192)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(*(Residual() for _ in range(16)), nn.Linear(WIDTH, CLASSES)).to(DEVICE, torch.bfloat16)
    inputs = torch.randn(4, options.rows, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    labels = torch.randint(CLASSES, (4, options.rows), device=DEVICE)
    train(model, inputs, labels, 2)
    began = time.perf_counter()
    monitor = train(model, inputs, labels, options.steps)
    seconds = time.perf_counter() - began
    print(f"{options.steps} steps in {seconds:.2f} s, {len(monitor.unusual)} unusual gradients")


if __name__ == "__main__":
    main()
