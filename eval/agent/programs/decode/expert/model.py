"""The decoder with a static cache: every step has the same shapes, so that it can be replayed as a graph."""

import torch
import torch.nn.functional as F
from cache import LayerCache
from layers import TYPE, Linear, RMSNorm, rotary


class Block:
    """Attention and feed-forward network; projections of the same input are one matrix."""

    def __init__(self, config, weights, layer, device, batch):
        self.heads, self.kv_heads = config["heads"], config["kv_heads"]
        self.width = config["hidden"] // self.heads
        w = {n: weights[f"layers.{layer}.{n}"] for n in ("q", "k", "v", "o", "gate", "up", "down", "norm1", "norm2")}
        self.qkv = Linear(torch.cat([w["q"], w["k"], w["v"]]), device)
        self.o, self.down = Linear(w["o"], device), Linear(w["down"], device)
        self.gate_up = Linear(torch.cat([w["gate"], w["up"]]), device)
        self.before, self.between = RMSNorm(w["norm1"], device), RMSNorm(w["norm2"], device)
        self.cache = LayerCache(batch, self.kv_heads, config["context"], self.width, device, TYPE)

    def __call__(self, x, positions, angles, mask):
        batch, length, _ = x.shape
        parts = [self.heads * self.width, self.kv_heads * self.width, self.kv_heads * self.width]
        q, k, v = (
            part.view(batch, length, -1, self.width).transpose(1, 2)
            for part in self.qkv(self.before(x)).split(parts, dim=-1)
        )
        q, k = rotary(q, *angles), rotary(k, *angles)
        self.cache.write(k, v, positions)
        groups = self.heads // self.kv_heads
        # The queries of a group share its keys: they are rows of one product.
        q = q.reshape(batch, self.kv_heads, groups * length, self.width)
        mixed = F.scaled_dot_product_attention(q, self.cache.keys, self.cache.values, attn_mask=mask.repeat(groups, 1))
        mixed = mixed.view(batch, self.heads, length, self.width).transpose(1, 2).reshape(batch, length, -1)
        x = x + self.o(mixed)
        gate, up = self.gate_up(self.between(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Decoder:
    """The whole model with its cache."""

    def __init__(self, config, weights, device, batch):
        self.embedding = weights["embedding"].to(device).to(TYPE)
        self.blocks = [Block(config, weights, layer, device, batch) for layer in range(config["layers"])]
        self.norm = RMSNorm(weights["norm"], device)
        width, context = config["hidden"] // config["heads"], config["context"]
        rates = 10000.0 ** (-torch.arange(0, width, 2, device=device, dtype=torch.float32) / width)
        angles = torch.arange(context, device=device, dtype=torch.float32)[:, None] * rates
        self.cos, self.sin = angles.cos(), angles.sin()
        self.places = torch.arange(context, device=device)

    def logits(self, tokens, positions):
        """The logits after the last of these tokens; ``positions`` are theirs, on the device."""
        mask = self.places[None, :] <= positions[:, None]
        angles = self.cos[positions], self.sin[positions]
        x = F.embedding(tokens, self.embedding)
        for block in self.blocks:
            x = block(x, positions, angles, mask)
        return F.linear(self.norm(x)[:, -1], self.embedding).float()
