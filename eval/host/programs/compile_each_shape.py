"""Score documents, sorted by length, with a compiled model."""

import argparse
import os
import tempfile
import time

import torch
from torch import nn

DEVICE = "cuda"
VOCABULARY, WIDTH, BUCKETS = 8192, 1024, 5


class Scorer(nn.Module):
    """Gated layers over the words of a document, and one score."""

    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.gates = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH) for _ in range(layers))
        self.values = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH) for _ in range(layers))
        self.narrow = nn.ModuleList(nn.Linear(4 * WIDTH, WIDTH) for _ in range(layers))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, tokens):
        x = self.embed(tokens)
        for gate, value, narrow in zip(self.gates, self.values, self.narrow, strict=True):
            x = x + narrow(nn.functional.silu(gate(x)) * value(x))
        return self.head(x.mean(1))


def batches(steps, rows):
    """Documents in the order of their lengths, cut to the length of their bucket."""
    for step in range(steps):
        length = 256 + 64 * (1 + step * BUCKETS // steps)
        yield torch.randint(VOCABULARY, (rows, length), device=DEVICE)


def score_documents(model, tokens):
    """Scores of a batch of documents."""
    return model(tokens).float().squeeze(1)


def keep_best(best, scores, count=32):
    """The best scores so far."""
    return torch.cat([best, scores]).topk(count).values


@torch.no_grad()
def run(model, steps, rows):
    """The best scores of all documents."""
    best = torch.full((32,), float("-inf"), device=DEVICE)
    for tokens in batches(steps, rows):
        best = keep_best(best, score_documents(model, tokens))
    return best.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int, default=64)
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        model = Scorer(layers=4).to(DEVICE, torch.bfloat16).eval()
        compiled = torch.compile(model, dynamic=False)
        with torch.no_grad():
            score_documents(compiled, torch.randint(VOCABULARY, (options.rows, 256), device=DEVICE)).tolist()
        began = time.perf_counter()
        best = run(compiled, options.steps, options.rows)
        print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s, best score {best[0]:.3f}")


if __name__ == "__main__":
    main()
