"""Train a model and keep an average of its weights in host memory for evaluation."""

import argparse
import time

import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn

DEVICE = "cuda"
WIDTH, CLASSES = 1024, 1000


class Block(nn.Module):
    """A residual block of two layers."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 2 * WIDTH)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


class AveragedWeights:
    """An exponential average of the weights of a model, outside of the memory of the GPU."""

    def __init__(self, model, decay):
        self.decay = decay
        self.average = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}

    def update(self, model):
        """Move the average towards the present weights."""
        for name, value in model.state_dict().items():
            present = value.detach().cpu()
            self.average[name].mul_(self.decay).add_(present, alpha=1 - self.decay)

    def distance(self, model):
        """How far the weights are from their average."""
        now = model.state_dict()
        return sum((now[name].cpu() - value).square().sum().item() for name, value in self.average.items()) ** 0.5


def train(model, inputs, labels, steps, averaged):
    """Train on batches in turn; the loss of the last step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(steps):
        batch = step % len(inputs)
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        averaged.update(model)
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=70)
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--blocks", type=int, default=6)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(options.blocks)), nn.Linear(WIDTH, CLASSES)).to(DEVICE)
    inputs = torch.randn(4, options.rows, WIDTH, device=DEVICE)
    labels = torch.randint(CLASSES, (4, options.rows), device=DEVICE)
    averaged = AveragedWeights(model, decay=0.999)
    train(model, inputs, labels, 2, averaged)
    began = time.perf_counter()
    loss = train(model, inputs, labels, options.steps, averaged)
    seconds = time.perf_counter() - began
    print(f"{options.steps} steps in {seconds:.2f} s, loss {loss:.3f}, distance {averaged.distance(model):.3f}")


if __name__ == "__main__":
    main()
