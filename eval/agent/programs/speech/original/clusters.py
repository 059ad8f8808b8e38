"""Spherical k-means over the vectors of an index."""

import torch


class SphericalMeans:
    """Clusters around unit vectors; the first ones are given vectors of the index."""

    def __init__(self, index, first, settings):
        self.vectors, self.settings = index.vectors, settings
        self.centres = self.vectors[torch.as_tensor(first, device=self.vectors.device)].clone()
        self.labels = torch.full((len(self.vectors),), -1, device=self.vectors.device)
        self.rounds = 0

    def assign(self):
        """The nearest centre of every vector; returns the share of vectors that moved."""
        moved = 0
        for begin in range(0, len(self.vectors), self.settings.block):
            end = begin + self.settings.block
            nearest = (self.vectors[begin:end] @ self.centres.T).argmax(-1)
            moved += (nearest != self.labels[begin:end]).sum().item()
            self.labels[begin:end] = nearest
        return moved / len(self.vectors)

    def update(self):
        """Centres become the directions of the sums of their vectors; an empty cluster keeps its centre."""
        for number in range(len(self.centres)):
            own = self.vectors[self.labels == number]
            if len(own):
                self.centres[number] = torch.nn.functional.normalize(own.sum(0), dim=0)

    def fit(self):
        """Rounds until nothing moves or the rounds are used up."""
        for _ in range(self.settings.rounds):
            self.rounds += 1
            moved = self.assign()
            if moved <= self.settings.settled:
                break
            self.update()
        self.assign()
        return self

    def tightness(self):
        """The mean cosine between vectors and the centres of their clusters."""
        total = 0.0
        for number in range(len(self.centres)):
            own = self.vectors[self.labels == number]
            if len(own):
                total += (own @ self.centres[number]).sum().item()
        return total / len(self.vectors)

    def purity(self, keywords):
        """The share of vectors whose keyword is the commonest of their cluster."""
        keywords = torch.as_tensor(keywords, device=self.labels.device)
        right = 0
        for number in range(len(self.centres)):
            own = keywords[self.labels == number]
            if len(own):
                right += torch.bincount(own).max().item()
        return right / len(keywords)
