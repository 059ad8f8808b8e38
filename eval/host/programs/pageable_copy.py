"""Compute features of frames that lie in host memory."""

import argparse
import time

import numpy as np
import torch
from torch import nn

DEVICE = "cuda"
SIDE = 224


def make_clips(count, frames):
    """Clips as a reader returns them: arrays of floats."""
    random = np.random.default_rng(0)
    pattern = random.random((3, SIDE, SIDE), dtype=np.float32)
    levels = random.random((count, frames, 3, 1, 1), dtype=np.float32)
    return [level * pattern for level in levels]


class Features(nn.Module):
    """Convolutions from frames to one vector each."""

    def __init__(self):
        super().__init__()
        sizes = [(3, 128, 8, 4), (128, 384, 3, 1), (384, 768, 3, 2), (768, 1536, 3, 2)]
        layers = []
        for into, out, kernel, stride in sizes:
            layers += [nn.Conv2d(into, out, kernel, stride, kernel // 2), nn.BatchNorm2d(out), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x).mean((2, 3))


def load_clip(clip):
    """The frames of a clip on the device."""
    frames = torch.from_numpy(clip)
    return frames.to(DEVICE)


def embed(model, frames):
    """One normalised vector for each frame."""
    frames = frames.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
    return nn.functional.normalize(model((frames - 0.5) / 0.25).float(), dim=1)


@torch.inference_mode()
def run(model, clips, steps):
    """Mean similarity of the frames of neighbouring clips."""
    before, total = None, torch.zeros((), device=DEVICE)
    for step in range(steps):
        frames = load_clip(clips[step % len(clips)])
        vectors = embed(model, frames)
        if before is not None:
            total += (vectors @ before.T).mean()
        before = vectors
    return total.item() / max(steps - 1, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--frames", type=int, default=256)
    options = parser.parse_args()
    torch.manual_seed(0)
    clips = make_clips(6, options.frames)
    model = Features().to(DEVICE, torch.bfloat16).to(memory_format=torch.channels_last).eval()
    run(model, clips, 2)
    began = time.perf_counter()
    similarity = run(model, clips, options.steps)
    seconds = time.perf_counter() - began
    print(f"{options.steps} steps in {seconds:.2f} s, similarity {similarity:.3f}")


if __name__ == "__main__":
    main()
