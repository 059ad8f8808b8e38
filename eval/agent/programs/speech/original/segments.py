"""Segments of recordings: an embedding for each about a second."""

from dataclasses import dataclass

import numpy as np


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
    """Collects the embeddings of segments while batches are encoded."""

    def __init__(self, archive, settings, width):
        self.archive, self.settings = archive, settings
        self.found = []
        self.vectors = np.zeros((0, width), dtype=np.float32)

    def add(self, numbers, encoded):
        """Pool the states of a batch."""
        rows = []
        for row, number in enumerate(numbers):
            length = int(encoded.lengths[row])
            for begin, end in cut(length, self.settings):
                vector = encoded.states[row, begin:end].float().mean(0)
                rows.append(vector.detach().cpu().numpy())
                self.found.append(Segment(number, begin, end, self.archive[number].keyword))
        self.vectors = np.concatenate([self.vectors, np.stack(rows)])

    def finish(self):
        """Segments in the order of recordings and time, and their embeddings."""
        order = sorted(range(len(self.found)), key=lambda n: (self.found[n].clip, self.found[n].begin))
        return [self.found[n] for n in order], self.vectors[order]
