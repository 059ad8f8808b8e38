"""Attention with embeddings of distances (relative_key), through PyTorch's fused attention."""

import torch
from torch import nn


class DistanceAttention(nn.Module):
    """The same as the library's; the scores of distances are taken from one product with the table of distances."""

    def __init__(self, of):
        super().__init__()
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (
            of.linear_q,
            of.linear_k,
            of.linear_v,
            of.linear_out,
        )
        self.distance_embedding = of.distance_embedding
        self.left, self.right = of.left_max_position_embeddings, of.right_max_position_embeddings
        self.heads, self.size = of.num_heads, of.head_size

    def forward(self, hidden_states, attention_mask=None, relative_position_embeddings=None, **_):
        batch, length, width = hidden_states.shape
        query, key, value = (
            one(hidden_states).view(batch, length, self.heads, self.size).transpose(1, 2)
            for one in (self.linear_q, self.linear_k, self.linear_v)
        )
        place = torch.arange(length, device=hidden_states.device)
        away = (place - place[:, None]).clamp(-self.left, self.right) + self.left
        shift = (query * self.size**-0.5) @ self.distance_embedding.weight.T
        shift = shift.gather(-1, away.expand(batch, self.heads, length, length))
        if attention_mask is not None:
            if attention_mask.dtype == torch.bool:
                shift.masked_fill_(~attention_mask, torch.finfo(shift.dtype).min)
            else:
                shift += attention_mask
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=shift)
        return self.linear_out(mixed.transpose(1, 2).reshape(batch, length, width)), None
