"""Embed texts: words are split into pieces by merges, then read by an encoder."""

import argparse
import random
import time
from collections import Counter
from itertools import pairwise

import torch
from torch import nn

DEVICE = "cuda"
WIDTH, LENGTH = 1024, 256


def make_texts(count, words):
    """Texts of made-up words."""
    chosen = random.Random(0)
    parts = ["ba", "den", "fi", "gor", "hu", "kel", "lam", "mi", "nor", "pa", "rin", "so", "tur", "ve"]
    known = ["".join(chosen.choices(parts, k=chosen.randint(1, 4))) for _ in range(5000)]
    return [" ".join(chosen.choices(known, k=words)) for _ in range(count)]


class Tokeniser:
    """Byte-pair encoding with merges learned from the most frequent neighbours."""

    def __init__(self, merges):
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        letters = sorted({letter for pair in merges for part in pair for letter in part})
        pieces = letters + ["".join(pair) for pair in merges]
        self.numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces), 1)}

    def encode(self, text):
        """Numbers of the pieces of a text."""
        numbers = []
        for word in text.split():
            pieces = list(word)
            while len(pieces) > 1:
                best, at = len(self.ranks), 0
                for place, pair in enumerate(pairwise(pieces)):
                    rank = self.ranks.get(pair, len(self.ranks))
                    if rank < best:
                        best, at = rank, place
                if best == len(self.ranks):
                    break
                pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
            numbers.extend(self.numbers.get(piece, 0) for piece in pieces)
        return numbers[:LENGTH]


def learn_merges(texts, count):
    """The pairs of pieces that occur most often, one after the other."""
    spaced = [f" {' '.join(word)} " for word, _ in Counter(" ".join(texts).split()).most_common(400)]
    merges = []
    while len(merges) < count:
        counts = Counter(pair for word in spaced for pair in pairwise(word.split()))
        merges.append(pair := max(counts, key=counts.get))
        spaced = [word.replace(f" {' '.join(pair)} ", f" {''.join(pair)} ") for word in spaced]
    return merges


@torch.inference_mode()
def embed(model, tokeniser, texts, steps, rows):
    """Mean vectors of the texts; the norm of their sum."""
    total = torch.zeros(WIDTH, device=DEVICE)
    for step in range(steps):
        numbers = [tokeniser.encode(texts[(step * rows + row) % len(texts)]) for row in range(rows)]
        batch = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in numbers], batch_first=True).to(DEVICE)
        total += model(batch).float().mean((0, 1))
    return total.norm().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--rows", type=int, default=32)
    options = parser.parse_args()
    torch.manual_seed(0)
    texts = make_texts(256, 60)
    tokeniser = Tokeniser(learn_merges(texts, 80))
    block = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(4096, WIDTH), nn.TransformerEncoder(block, 12)).to(DEVICE, torch.bfloat16).eval()
    embed(model, tokeniser, texts, 2, options.rows)
    began = time.perf_counter()
    norm = embed(model, tokeniser, texts, options.steps, options.rows)
    print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s, norm {norm:.3f}")


if __name__ == "__main__":
    main()
