"""Generate text with a small decoder; a group of words that a row already has is not repeated."""

import argparse
import time

import torch
from torch import nn

DEVICE = "cuda"
VOCABULARY, WIDTH, WINDOW = 8192, 512, 256


class Decoder(nn.Module):
    """A decoder without a cache: each step reads the whole window."""

    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        block = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, mask):
        hidden = self.blocks(self.embed(tokens), mask=mask, is_causal=True)
        return self.head(hidden[:, -1])


def banned_tokens(rows, size):
    """For each row the tokens that would complete a group of `size` tokens the row already has."""
    banned = []
    for row in rows:
        followers = {}
        for start in range(len(row) - size + 1):
            group = tuple(row[start : start + size - 1])
            followers.setdefault(group, []).append(row[start + size - 1])
        banned.append(followers.get(tuple(row[1 - size :]), []))
    return banned


@torch.no_grad()
def generate(model, prompts, steps, size=3):
    """Extend the prompts by one token a step."""
    mask = nn.Transformer.generate_square_subsequent_mask(WINDOW, device=DEVICE, dtype=torch.bfloat16)
    tokens = prompts
    rows = tokens.tolist()
    for _ in range(steps):
        logits = model(tokens[:, -WINDOW:], mask).float()
        penalty = torch.zeros(logits.shape)
        for number, words in enumerate(banned_tokens(rows, size)):
            penalty[number, words] = float("-inf")
        chosen = (logits + penalty.to(DEVICE)).argmax(-1)
        tokens = torch.cat([tokens, chosen[:, None]], 1)
        for row, word in zip(rows, chosen.tolist(), strict=True):
            row.append(word)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=350)
    parser.add_argument("--rows", type=int, default=64)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Decoder(layers=6).to(DEVICE, torch.bfloat16).eval()
    prompts = torch.randint(VOCABULARY, (options.rows, WINDOW), device=DEVICE)
    generate(model, prompts, 2)
    began = time.perf_counter()
    rows = generate(model, prompts, options.steps)
    print(f"{options.steps} steps, {len(rows)} rows in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
