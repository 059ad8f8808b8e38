"""The decoder: embeddings, blocks with grouped-query attention and a gated feed-forward network, and the head."""

import math

import torch
import torch.nn.functional as F
from cache import LayerCache
from layers import Linear, RMSNorm, Rotary


class Attention:
    """Grouped-query attention over the cache."""

    def __init__(self, config, weights, layer, device):
        self.heads, self.kv_heads = config["heads"], config["kv_heads"]
        self.width = config["hidden"] // self.heads
        name = f"layers.{layer}."
        self.q = Linear(weights[name + "q"], device)
        self.k = Linear(weights[name + "k"], device)
        self.v = Linear(weights[name + "v"], device)
        self.o = Linear(weights[name + "o"], device)
        self.rotary = Rotary(self.width, config["context"], device)

    def __call__(self, x, cache, start):
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, self.heads, self.width).transpose(1, 2)
        k = self.k(x).view(batch, length, self.kv_heads, self.width).transpose(1, 2)
        v = self.v(x).view(batch, length, self.kv_heads, self.width).transpose(1, 2)
        q, k = self.rotary(q, start), self.rotary(k, start)
        keys, values = cache.append(k, v)
        groups = self.heads // self.kv_heads
        keys = keys.repeat_interleave(groups, dim=1)
        values = values.repeat_interleave(groups, dim=1)
        total = keys.shape[2]
        mask = torch.full((total, total), float("-inf"), device=x.device).triu(1)
        scores = q @ keys.transpose(-1, -2) / math.sqrt(self.width)
        scores = scores.float() + mask[total - length :]
        mixed = torch.softmax(scores, dim=-1).to(v.dtype) @ values
        return self.o(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward:
    """The gated network: down(silu(gate(x)) * up(x))."""

    def __init__(self, weights, layer, device):
        name = f"layers.{layer}."
        self.gate = Linear(weights[name + "gate"], device)
        self.up = Linear(weights[name + "up"], device)
        self.down = Linear(weights[name + "down"], device)

    def __call__(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block:
    """Attention and feed-forward network, each with a norm before and a residual around it."""

    def __init__(self, config, weights, layer, device):
        self.attention = Attention(config, weights, layer, device)
        self.feed_forward = FeedForward(weights, layer, device)
        self.before = RMSNorm(weights[f"layers.{layer}.norm1"], device)
        self.between = RMSNorm(weights[f"layers.{layer}.norm2"], device)

    def __call__(self, x, cache, start):
        x = x + self.attention(self.before(x), cache, start)
        return x + self.feed_forward(self.between(x))


class Decoder:
    """The whole model with its cache."""

    def __init__(self, config, weights, device):
        self.config, self.device = config, device
        self.embedding = weights["embedding"].to(device)
        self.blocks = [Block(config, weights, layer, device) for layer in range(config["layers"])]
        self.norm = RMSNorm(weights["norm"], device)
        self.head = Linear(weights["embedding"], device)
        self.caches = [LayerCache() for _ in self.blocks]

    def logits(self, tokens, start):
        """The logits after the last of these tokens, which begin at position ``start``."""
        x = F.embedding(tokens, self.embedding).to(torch.bfloat16)
        for block, cache in zip(self.blocks, self.caches, strict=True):
            x = block(x, cache, start)
        return self.head(self.norm(x))[:, -1].float()
