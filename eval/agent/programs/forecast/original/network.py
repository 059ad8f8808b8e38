"""The network: a causal transformer over the hours of a window, with quantiles of every hour ahead as output."""

import torch
from torch import nn


class Block(nn.Module):
    """Attention and a gated feed-forward part, both behind a normalisation."""

    def __init__(self, width, heads):
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.between = nn.LayerNorm(width)
        self.into = nn.Linear(width, 4 * width)
        self.out = nn.Linear(2 * width, width)

    def forward(self, x, mask):
        y = self.before(x)
        mixed, _ = self.attention(y, y, y, attn_mask=mask)
        x = x + mixed
        value, gate = self.into(self.between(x)).chunk(2, dim=-1)
        return x + self.out(value * torch.sigmoid(gate))


class Forecaster(nn.Module):
    """Quantiles by hour ahead for inputs by hour, which are (window, hour, channel)."""

    def __init__(self, channels, series, context, horizon, quantiles, width, heads, layers):
        super().__init__()
        self.horizon = horizon
        self.entry = nn.Linear(channels, width)
        self.identity = nn.Embedding(series, width)
        self.position = nn.Parameter(torch.zeros(context + horizon, width))
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, quantiles)

    def forward(self, inputs, series):
        x = self.entry(inputs.float()) + self.identity(series)[:, None] + self.position
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x[:, -self.horizon :]))


def build(case):
    """The network with the starting weights of a case."""
    network = Forecaster(
        channels=case["channels"],
        series=len(case["loads"]),
        context=case["context"],
        horizon=case["horizon"],
        quantiles=len(case["quantiles"]),
        **case["model"],
    )
    network.load_state_dict(case["parameters"])
    return network
