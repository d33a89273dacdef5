"""DeBERTa v3 in PyTorch, eager code for speed: what txjax is timed against."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch_block import Block  # beside this file

BUCKETS, FARTHEST, EPS = 256, 512, 1e-7


class DisentangledBlock(Block):
    """A post-norm layer whose scores have three terms, as in the authors' code.

    Relative positions are projected as the tokens are; the products with all of them are gathered by the bucket of each
    pair's distance.
    """

    def attention(self, x: torch.Tensor, *context: torch.Tensor) -> torch.Tensor:
        (table, by_key, by_query), (batch, length, width) = context, x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weight, bias = self.qkv.weight[: 2 * width], self.qkv.bias[: 2 * width]
        far_q, far_k = F.linear(table, weight, bias).view(-1, 2, self.heads, q.shape[-1]).permute(1, 2, 3, 0)
        scale = (3 * q.shape[-1]) ** -0.5
        q, far_q = q * scale, far_q * scale
        shape = batch, self.heads, length, length
        scores = q @ k.transpose(2, 3)
        scores = scores + (q @ far_k).gather(3, by_key.expand(shape))
        scores = scores + (k @ far_q).gather(3, by_query.expand(shape)).transpose(2, 3)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


def log_buckets(length: int) -> torch.Tensor:
    """The bucket of each pair of a query and a key, [length length]; negative where the key is later."""
    distance, half = torch.arange(length)[:, None] - torch.arange(length)[None], BUCKETS // 2
    away = distance.abs().clamp(min=half) / half
    far = (away.log() / math.log((FARTHEST - 1) / half) * (half - 1)).ceil().long() + half
    return torch.where(distance.abs() <= half, distance, distance.sign() * far)


class Deberta(nn.Module):
    """Masked-token loss of a DeBERTa v3 (He et al. 2023), on the positions that were chosen alone."""

    def __init__(self, vocab: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.embed, self.norm = nn.Embedding(vocab, width), nn.LayerNorm(width, EPS)
        self.table, self.norm_table = nn.Embedding(2 * BUCKETS, width), nn.LayerNorm(width, EPS)
        self.blocks = nn.ModuleList(DisentangledBlock(width, heads, EPS, False, True, "none") for _ in range(depth))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, EPS))
        self.bias = nn.Parameter(torch.zeros(vocab))
        buckets = log_buckets(length)
        self.register_buffer("by_key", (buckets + BUCKETS).clamp(0, 2 * BUCKETS - 1), persistent=False)
        self.register_buffer("by_query", (BUCKETS - buckets).clamp(0, 2 * BUCKETS - 1), persistent=False)

    def forward(self, tokens: torch.Tensor, chosen: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x, table = self.norm(self.embed(tokens)), self.norm_table(self.table.weight)
        for block in self.blocks:
            x = block(x, table, self.by_key, self.by_query)
        picked = x.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        logits = self.transform(picked) @ self.embed.weight.T + self.bias
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
