"""Segments of recordings: an embedding for each about a second."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Segment:
    """A part of a recording, in places of the encoder."""

    clip: int
    begin: int
    end: int
    keyword: int


def cut(length, settings):
    """Begins and ends of the segments of a recording; a short rest is left out unless it is all there is."""
    found = []
    for begin in range(0, length, settings.tokens):
        end = min(begin + settings.tokens, length)
        if end - begin >= settings.shortest or begin == 0:
            found.append((begin, end))
    return found


class Pool:
    """Collects the embeddings of segments on the device while batches are encoded."""

    def __init__(self, archive, settings):
        self.archive, self.settings = archive, settings
        self.found, self.parts = [], []

    def add(self, numbers, encoded):
        """Pool the states of a batch: sums of windows, divided by their lengths."""
        tokens, states = self.settings.tokens, encoded.states
        windows = -(-states.shape[1] // tokens)
        rows, counts = [], []
        for row, (number, length) in enumerate(zip(numbers, encoded.lengths, strict=True)):
            for begin, end in cut(length, self.settings):
                rows.append(row * windows + begin // tokens)
                counts.append(end - begin)
                self.found.append(Segment(number, begin, end, self.archive[number].keyword))
        lengths = torch.tensor(encoded.lengths).to(states.device)
        outside = torch.arange(states.shape[1], device=states.device) >= lengths[:, None]
        states = states.float().masked_fill_(outside[..., None], 0.0)
        states = torch.nn.functional.pad(states, (0, 0, 0, windows * tokens - states.shape[1]))
        sums = states.view(len(numbers) * windows, tokens, -1).sum(1)
        rows, counts = (torch.tensor(values).to(states.device) for values in (rows, counts))
        self.parts.append(sums[rows] / counts[:, None])

    def finish(self):
        """Segments in the order of recordings and time, and their embeddings."""
        order = sorted(range(len(self.found)), key=lambda n: (self.found[n].clip, self.found[n].begin))
        vectors = torch.cat(self.parts)
        return [self.found[n] for n in order], vectors[torch.tensor(order).to(vectors.device)]
