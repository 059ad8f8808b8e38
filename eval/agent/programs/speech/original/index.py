"""A flat index: unit vectors, searched exhaustively by their cosine."""

import torch


class FlatIndex:
    """Vectors of segments on a device."""

    def __init__(self, vectors, settings, device):
        self.settings, self.device = settings, device
        vectors = torch.as_tensor(vectors, dtype=torch.float32)
        if settings.centre:
            vectors = vectors - vectors.mean(0)
        self.vectors = torch.nn.functional.normalize(vectors, dim=-1).to(device)

    def __len__(self):
        return len(self.vectors)

    def search(self, query, count, leave_out=None):
        """Numbers and cosines of the nearest vectors, the best first."""
        cosines = self.vectors @ query
        if leave_out is not None:
            cosines[leave_out] = -2.0
        best = torch.topk(cosines, min(count, len(self) - 1))
        return list(zip(best.indices, best.values, strict=True))


def neighbours(index):
    """The neighbours of every vector among the others."""
    numbers, cosines = [], []
    for at in range(len(index)):
        hits = index.search(index.vectors[at], index.settings.neighbours, leave_out=at)
        numbers.append([number.item() for number, _ in hits])
        cosines.append([cosine.item() for _, cosine in hits])
    return torch.tensor(numbers), torch.tensor(cosines)


def precision_of(numbers, segments):
    """For each segment, the share of its neighbours that have its keyword."""
    shares = []
    for segment, row in zip(segments, numbers.tolist(), strict=True):
        shares.append(sum(segments[n].keyword == segment.keyword for n in row) / max(len(row), 1))
    return torch.tensor(shares)
