"""Streams in turn, so that chunks can overlap."""

import contextlib

import torch


class Streams:
    """A few streams; on the CPU there are none."""

    def __init__(self, count, device):
        self.streams = [torch.cuda.Stream() for _ in range(count)] if device == "cuda" else []

    def of(self, number):
        """The context of the stream for a chunk."""
        if not self.streams:
            return contextlib.nullcontext()
        stream = self.streams[number % len(self.streams)]
        stream.wait_stream(torch.cuda.default_stream())
        return torch.cuda.stream(stream)

    def wait(self):
        """Wait for all of them."""
        for stream in self.streams:
            stream.synchronize()
