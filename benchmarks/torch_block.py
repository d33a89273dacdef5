"""The Transformer layer of most of the models in PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A pre-norm or post-norm Transformer layer with fused queries, keys and values and fused attention."""

    def __init__(self, width: int, heads: int, eps: float, causal: bool, post_norm: bool, gelu: str):
        super().__init__()
        self.heads, self.causal, self.post_norm = heads, causal, post_norm
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(gelu), nn.Linear(4 * width, width))

    def attention(self, x: torch.Tensor, *context: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor, *context: torch.Tensor) -> torch.Tensor:
        if self.post_norm:
            x = self.norm1(x + self.attention(x, *context))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x), *context)
        return x + self.mlp(self.norm2(x))
