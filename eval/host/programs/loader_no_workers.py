"""Train a classifier of sounds on spectrograms of random crops."""

import argparse
import time

import numpy as np
import torch
import torch._dynamo  # the first optimiser would load it otherwise
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda"
FRAME, HOP, FRAMES, CLASSES = 512, 160, 128, 50


class Recordings(Dataset):
    """Recordings in memory; an item is the spectrogram of a random part of one."""

    def __init__(self, count, items):
        self.random = np.random.default_rng(0)
        self.signals = self.random.standard_normal((count, 48000)).astype(np.float32)
        self.labels = self.random.integers(0, CLASSES, count)
        self.window = np.hanning(FRAME).astype(np.float32)
        self.items = items

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        signal = self.signals[index % len(self.signals)]
        start = self.random.integers(0, len(signal) - FRAME - HOP * FRAMES)
        columns = []
        for number in range(FRAMES):
            at = start + number * HOP
            spectrum = np.fft.rfft(signal[at : at + FRAME] * self.window)
            columns.append(np.log1p(np.abs(spectrum[1:])))
        image = np.stack(columns, axis=1)
        return torch.from_numpy(image.astype(np.float32)), int(self.labels[index % len(self.labels)])


class Classifier(nn.Module):
    """A transformer over the frames of a spectrogram."""

    def __init__(self, width, layers):
        super().__init__()
        self.into = nn.Linear(FRAME // 2, width)
        block = nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images):
        return self.head(self.blocks(self.into(images.transpose(1, 2))).mean(1))


def train(model, loader):
    """One pass over the items of the loader; its mean loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    total = torch.zeros((), device=DEVICE)
    for images, labels in loader:
        images, labels = images.to(DEVICE, torch.bfloat16), labels.to(DEVICE)
        loss = nn.functional.cross_entropy(model(images).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.detach()
    return total.item() / max(len(loader), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--rows", type=int, default=24)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Classifier(width=1024, layers=16).to(DEVICE, torch.bfloat16)
    train(model, DataLoader(Recordings(256, 2 * options.rows), batch_size=options.rows))
    recordings = Recordings(256, options.steps * options.rows)
    loader = DataLoader(recordings, batch_size=options.rows, shuffle=True)
    began = time.perf_counter()
    loss = train(model, loader)
    print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s, loss {loss:.3f}")


if __name__ == "__main__":
    main()
