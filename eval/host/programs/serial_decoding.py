"""Train an image classifier on PNG files in a folder."""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch._dynamo  # the first optimiser would load it otherwise
from PIL import Image
from torch import nn

DEVICE = "cuda"
SIDE, PATCH, WIDTH, CLASSES = 224, 16, 1024, 10


def write_images(folder, count):
    """Photographs of noise on a gradient, as PNG files."""
    random = np.random.default_rng(0)
    ramp = np.linspace(0, 200, 256, dtype=np.float32)
    for number in range(count):
        image = ramp[:, None, None] + random.integers(0, 50, (256, 256, 3))
        Image.fromarray(image.astype(np.uint8)).save(folder / f"{number:04}.png")
    return sorted(folder.glob("*.png"))


class Classifier(nn.Module):
    """A small vision transformer."""

    def __init__(self, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        block = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        return self.head(self.blocks(self.patches(images).flatten(2).transpose(1, 2)).mean(1))


def read_images(paths):
    """The images as one array of bytes, in the size of the model."""
    images = []
    for path in paths:
        with Image.open(path) as image:
            resized = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        images.append(np.asarray(resized))
    return np.stack(images)


def train(model, paths, labels, steps, rows):
    """Train on the images in turn; the loss of the last step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(steps):
        chosen = [(step * rows + row) % len(paths) for row in range(rows)]
        images = torch.from_numpy(read_images([paths[number] for number in chosen]))
        images = images.to(DEVICE).permute(0, 3, 1, 2).to(torch.bfloat16) / 255
        loss = nn.functional.cross_entropy(model(images).float(), labels[chosen])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--images", type=int, default=128)
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(Path(folder), options.images)
        labels = torch.randint(CLASSES, (len(paths),), device=DEVICE)
        model = Classifier(layers=12).to(DEVICE, torch.bfloat16)
        train(model, paths, labels, 2, options.rows)
        began = time.perf_counter()
        loss = train(model, paths, labels, options.steps, options.rows)
        print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s, loss {loss:.3f}")


if __name__ == "__main__":
    main()
