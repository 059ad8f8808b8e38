"""Train a recommender on the visits of users, which are kept as objects."""

import argparse
import gc
import random
import time

import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn

DEVICE = "cuda"
ITEMS, WIDTH, WIDE = 20000, 512, 8192


class Visit:
    """What one user looked at and bought."""

    def __init__(self, user, items, bought):
        self.user = user
        self.items = items
        self.bought = bought
        self.notes = {"source": ["web"], "tags": []}


def make_visits(count):
    """Visits as they would be read from a log."""
    chosen = random.Random(0)
    return [
        Visit(user, [chosen.randrange(ITEMS) for _ in range(8)], [chosen.randrange(ITEMS)]) for user in range(count)
    ]


class Recommender(nn.Module):
    """From the items of a visit to the next one."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(ITEMS, WIDTH)
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDTH)
        )
        self.head = nn.Linear(WIDTH, ITEMS)

    def forward(self, items):
        return self.head(self.layers(self.embed(items)).mean(1))


def next_batch(visits, step, rows):
    """Items and purchases of the next visits."""
    part = [visits[(step * rows + row) % len(visits)] for row in range(rows)]
    items = torch.tensor([visit.items for visit in part])
    return items.to(DEVICE), torch.tensor([visit.bought[0] for visit in part]).to(DEVICE)


def tidy():
    """Keep the memory of long runs constant."""
    gc.collect()


def train(model, visits, steps, rows):
    """Train; the loss of the last step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(steps):
        items, bought = next_batch(visits, step, rows)
        loss = nn.functional.cross_entropy(model(items).float(), bought)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tidy()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--visits", type=int, default=20000)
    options = parser.parse_args()
    torch.manual_seed(0)
    visits = make_visits(options.visits)
    model = Recommender().to(DEVICE, torch.bfloat16)
    train(model, visits, 2, options.rows)
    began = time.perf_counter()
    loss = train(model, visits, options.steps, options.rows)
    print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s, loss {loss:.3f}")


if __name__ == "__main__":
    main()
