"""Score documents of different lengths with an encoder."""

import argparse
import random
import time
from itertools import pairwise

import torch
from torch import nn

DEVICE = "cuda"
VOCABULARY, WIDTH = 16384, 512


class Encoder(nn.Module):
    """Layers of attention and two linear layers; what each layer computes is kept for the score."""

    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.mix = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(layers))
        self.wide = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH) for _ in range(layers))
        self.narrow = nn.ModuleList(nn.Linear(4 * WIDTH, WIDTH) for _ in range(layers))

    def forward(self, tokens):
        x = self.embed(tokens)
        states = []
        for mix, wide, narrow in zip(self.mix, self.wide, self.narrow, strict=True):
            q, k, v = (part.unflatten(-1, (8, -1)).transpose(1, 2) for part in mix(x).chunk(3, -1))
            attended = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + attended.transpose(1, 2).flatten(2)
            inner = nn.functional.gelu(wide(x))
            x = nn.functional.layer_norm(x + narrow(inner), (WIDTH,))
            states.append((attended, inner, x))
        return states


def score(model, tokens):
    """How much attention and states of a document change from layer to layer, relative to the inner values."""
    states = model(tokens)
    changes = [
        ((after[0] - before[0]).norm() + (after[2] - before[2]).norm()) / after[1].norm()
        for before, after in pairwise(states)
    ]
    return torch.stack(changes).float().sum().item()


def release_memory():
    """Give what a document needed back, so that the next one can be longer."""
    torch.cuda.empty_cache()


@torch.inference_mode()
def run(model, lengths, rows):
    """Scores of batches of documents."""
    scores = []
    for length in lengths:
        tokens = torch.randint(VOCABULARY, (rows, length), device=DEVICE)
        scores.append(score(model, tokens))
        release_memory()
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rows", type=int, default=32)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Encoder(layers=12).to(DEVICE, torch.bfloat16).eval()
    chosen = random.Random(0)
    lengths = [chosen.randrange(320, 641, 32) for _ in range(options.steps)]
    run(model, [512, 512], options.rows)
    began = time.perf_counter()
    scores = run(model, lengths, options.rows)
    seconds = time.perf_counter() - began
    print(f"{options.steps} steps in {seconds:.2f} s, mean score {sum(scores) / len(scores):.4f}")


if __name__ == "__main__":
    main()
