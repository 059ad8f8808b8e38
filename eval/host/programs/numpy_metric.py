"""Train a recogniser of sequences and follow the share of wrong symbols."""

import argparse
import time

import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn

DEVICE = "cuda"
SYMBOLS, WIDTH, LENGTH, STRIDE = 40, 768, 40, 4


class Recogniser(nn.Module):
    """Scores of the symbols for every fourth frame."""

    def __init__(self, layers):
        super().__init__()
        self.into = nn.Linear(80, WIDTH)
        block = nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, frames):
        states = self.blocks(self.into(frames))
        return self.head(states.unflatten(1, (LENGTH, STRIDE)).mean(2))


def edit_distance(guess, target):
    """Insertions, deletions and replacements that lead from one sequence to the other."""
    above = list(range(len(target) + 1))
    for row, symbol in enumerate(guess, 1):
        line = [row]
        for column, wanted in enumerate(target, 1):
            line.append(min(above[column] + 1, line[-1] + 1, above[column - 1] + (symbol != wanted)))
        above = line
    return above[-1]


def error_rate(logits, targets):
    """Share of wrong symbols of a batch."""
    guesses = logits.float().cpu().numpy().argmax(-1).tolist()
    distances = [edit_distance(guess, target) for guess, target in zip(guesses, targets, strict=True)]
    return sum(distances) / sum(len(target) for target in targets)


def train(model, frames, targets, steps):
    """Train on batches in turn; the error rate of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    rates = []
    for step in range(steps):
        batch = step % len(frames)
        logits = model(frames[batch])
        wanted = targets[batch]
        nn.functional.cross_entropy(logits.float().flatten(0, 1), wanted.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        rates.append(error_rate(logits.detach(), wanted.tolist()))
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--rows", type=int, default=48)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Recogniser(layers=6).to(DEVICE, torch.bfloat16)
    frames = torch.randn(4, options.rows, LENGTH * STRIDE, 80, device=DEVICE, dtype=torch.bfloat16)
    targets = torch.randint(SYMBOLS, (4, options.rows, LENGTH), device=DEVICE)
    train(model, frames, targets, 2)
    began = time.perf_counter()
    rates = train(model, frames, targets, options.steps)
    print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s, error rate {rates[-1]:.3f}")


if __name__ == "__main__":
    main()
