"""Spherical k-means over the vectors of an index."""

import torch


class SphericalMeans:
    """Clusters around unit vectors; the first ones are given vectors of the index."""

    def __init__(self, index, first, settings):
        self.vectors, self.settings = index.vectors, settings
        self.centres = self.vectors[torch.tensor(first).to(self.vectors.device)]
        self.labels = None

    def members(self):
        """Clusters by vectors, 1 where a vector belongs to a cluster."""
        return torch.nn.functional.one_hot(self.labels, len(self.centres)).T.to(self.vectors.dtype)

    def assign(self):
        """The nearest centre of every vector."""
        self.labels = (self.vectors @ self.centres.T).argmax(-1)

    def update(self):
        """Centres become the directions of the sums of their vectors; an empty cluster keeps its centre."""
        members = self.members()
        moved = torch.nn.functional.normalize(members @ self.vectors, dim=-1)
        self.centres = torch.where(members.sum(-1, keepdim=True) > 0, moved, self.centres)

    def fit(self):
        """All rounds; once nothing moves, they change nothing."""
        for _ in range(self.settings.rounds):
            self.assign()
            self.update()
        self.assign()
        return self

    def tightness(self):
        """The mean cosine between vectors and the centres of their clusters."""
        return (self.vectors * self.centres[self.labels]).sum(-1).mean()

    def purity(self, keywords, kinds):
        """The share of vectors whose keyword is the commonest of their cluster."""
        table = self.members() @ torch.nn.functional.one_hot(keywords, kinds).to(self.vectors.dtype)
        return table.amax(-1).sum() / len(keywords)
