"""Find how much products of large matrices grow by power iteration; a thread watches the memory."""

import argparse
import threading
import time

import torch

DEVICE = "cuda"


class MemoryMonitor:
    """The largest use of the GPU's memory, and how long it was near that."""

    def __init__(self, kept=512):
        self.kept = kept
        self.peak = 0
        self.near = 0.0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.watch, name="memory", daemon=True)
        self.thread.start()

    def watch(self):
        """Read the use of the memory until the end."""
        readings = []
        while not self.stopped.is_set():
            readings.append(torch.cuda.memory_allocated())
            readings = readings[-self.kept :]
            high = 0
            for reading in readings:
                if reading > self.peak:
                    self.peak = reading
                if reading > 0.9 * self.peak:
                    high += 1
            self.near = high / len(readings)

    def close(self):
        self.stopped.set()
        self.thread.join()


def multiply(matrix, directions):
    """The directions after the matrix, and by how much they grew."""
    directions = matrix @ directions
    return directions, directions.norm().item()


@torch.inference_mode()
def run(matrices, directions, steps):
    """Multiply by the matrices in turn, in the same scale; the largest growth."""
    size, largest = directions.norm().item(), 0.0
    for step in range(steps):
        directions, grown = multiply(matrices[step % len(matrices)], directions)
        largest = max(largest, grown / size)
        directions *= size / grown
    return largest


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--size", type=int, default=13312)
    options = parser.parse_args()
    torch.manual_seed(0)
    size = options.size
    matrices = [torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16) / size**0.5 for _ in range(4)]
    directions = torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16)
    run(matrices, directions, 2)
    monitor = MemoryMonitor()
    began = time.perf_counter()
    growth = run(matrices, directions, options.steps)
    seconds = time.perf_counter() - began
    monitor.close()
    print(f"{options.steps} steps in {seconds:.2f} s, growth {growth:.3f}, {monitor.peak / 1e9:.2f} GB at most")


if __name__ == "__main__":
    main()
