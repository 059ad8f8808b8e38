"""A flat index: unit vectors, searched exhaustively by their cosine."""

import torch

ROWS = 4096


class FlatIndex:
    """Vectors of segments on a device."""

    def __init__(self, vectors, settings):
        self.settings = settings
        vectors = vectors.float()
        if settings.centre:
            vectors = vectors - vectors.mean(0)
        self.vectors = torch.nn.functional.normalize(vectors, dim=-1)

    def __len__(self):
        return len(self.vectors)


def neighbours(index):
    """The neighbours of every vector among the others, the best first, and their cosines."""
    numbers, cosines = [], []
    for begin in range(0, len(index), ROWS):
        near = index.vectors[begin : begin + ROWS] @ index.vectors.T
        near.diagonal(begin).fill_(-2.0)
        best = torch.topk(near, min(index.settings.neighbours, len(index) - 1))
        numbers.append(best.indices)
        cosines.append(best.values)
    return torch.cat(numbers), torch.cat(cosines)


def precision_of(numbers, keywords):
    """For each segment, the share of its neighbours that have its keyword."""
    return (keywords[numbers] == keywords[:, None]).float().mean(-1)
