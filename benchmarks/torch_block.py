"""The Transformer layer of most of the models in PyTorch, and BERT's encoder of such layers."""

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
        """`context`: a mask, bool [B 1 1 L], or nothing."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, *context, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor, *context: torch.Tensor) -> torch.Tensor:
        if self.post_norm:
            x = self.norm1(x + self.attention(x, *context))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x), *context)
        return x + self.mlp(self.norm2(x))


class BertEncoder(nn.Module):
    """The embeddings and the layers of a BERT."""

    def __init__(self, vocab: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(Block(width, heads, 1e-12, False, True, "none") for _ in range(depth))

    def embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the layers begin with, [B L D]."""
        return self.norm(self.embed(tokens) + self.positions.weight + self.types.weight[0])

    def layers(self, x: torch.Tensor, *mask: torch.Tensor) -> torch.Tensor:
        """The features after the layers, of which `mask`, bool [B 1 1 L], hides those of padding."""
        for block in self.blocks:
            x = block(x, *mask)
        return x
