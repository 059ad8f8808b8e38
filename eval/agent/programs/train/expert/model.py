"""The network."""

import torch.nn.functional as F
from gated import Gated
from torch import nn


class Layer(nn.Module):
    """A residual layer with the gated activation."""

    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.into = nn.Linear(hidden, 4 * hidden)
        self.out = nn.Linear(2 * hidden, hidden)

    def forward(self, x):
        u, g = self.into(self.norm(x)).chunk(2, dim=-1)
        return x + self.out(Gated.apply(u, g))


class Network(nn.Module):
    """Embedding, layers over every event, the mean over the sequence, and the classes."""

    def __init__(self, case):
        super().__init__()
        hidden = case["hidden"]
        self.embedding = nn.Embedding(case["vocabulary"], hidden)
        self.layers = nn.ModuleList(Layer(hidden) for _ in range(case["layers"]))
        self.head = nn.Linear(hidden, case["classes"])
        self.load_state_dict(case["parameters"])

    def forward(self, events):
        batch, length = events.shape
        x = self.embedding(events).flatten(0, 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.view(batch, length, -1).mean(1))


def loss_of(network, events, labels):
    """The mean cross entropy of a batch."""
    return F.cross_entropy(network(events), labels)
