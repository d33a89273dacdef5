"""The same three small models in PyTorch, written as PyTorch users would for speed: what txjax is timed against."""

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

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.post_norm:
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Next-token loss of a GPT-2: learned positions, pre-norm, tied head."""

    def __init__(self, vocab: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, 1e-5, True, False, "tanh") for _ in range(depth))
        self.norm = nn.LayerNorm(width, 1e-5)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.embed.weight.T
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Bert(nn.Module):
    """Masked-token loss of a BERT, on the positions that were chosen alone."""

    def __init__(self, vocab: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(Block(width, heads, 1e-12, False, True, "none") for _ in range(depth))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, 1e-12))
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, tokens: torch.Tensor, chosen: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(tokens) + self.positions.weight + self.types.weight[0])
        for block in self.blocks:
            x = block(x)
        picked = x.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        logits = self.transform(picked) @ self.embed.weight.T + self.bias
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class ViT(nn.Module):
    """Classification loss of a ViT with a class token."""

    def __init__(self, image: int, patch: int, classes: int, width: int, depth: int, heads: int):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn((image // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, 1e-6, False, False, "none") for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x[:, 0])).float(), label)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW, with decay for matrices alone, fused."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
