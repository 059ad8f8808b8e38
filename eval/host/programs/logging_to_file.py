"""Train a language model and keep the loss of every token in a log of lines of JSON."""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn

DEVICE = "cuda"
VOCABULARY, WIDTH, LENGTH = 8192, 768, 256


class Model(nn.Module):
    """A causal transformer."""

    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        block = nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], tokens.device, torch.bfloat16)
        return self.head(self.blocks(self.embed(tokens), mask=mask, is_causal=True))


class RunLog:
    """A file with one record for each step, complete after each of them."""

    def __init__(self, path):
        self.file = path.open("w", encoding="utf-8")

    def write(self, record):
        """Append a record; it survives a crash of the machine."""
        json.dump(record, self.file)
        self.file.write("\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self):
        self.file.close()


def train(model, tokens, steps, log):
    """Train on batches in turn."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(steps):
        batch = tokens[step % len(tokens)]
        logits = model(batch[:, :-1]).float()
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="none")
        losses.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        values = losses.detach().view(len(batch), -1).tolist()
        log.write({"step": step, "time": time.time(), "rows": [{"row": n, "loss": v} for n, v in enumerate(values)]})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rows", type=int, default=48)
    options = parser.parse_args()
    torch.manual_seed(0)
    tokens = torch.randint(VOCABULARY, (4, options.rows, LENGTH + 1), device=DEVICE)
    model = Model(layers=4).to(DEVICE, torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        log = RunLog(Path(folder) / "run.jsonl")
        train(model, tokens, 2, log)
        began = time.perf_counter()
        train(model, tokens, options.steps, log)
        seconds = time.perf_counter() - began
        log.close()
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    print(f"{options.steps} steps in {seconds:.2f} s, {size:.1f} MB of log")


if __name__ == "__main__":
    main()
