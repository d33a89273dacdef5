"""Encoder-decoders in PyTorch, written as PyTorch users would for speed: what txjax is timed against."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

IGNORED = -100  # the target of padding


class SelfAttention(nn.Module):
    """Attention with a fused projection and fused products. If `scale` is None, scores are divided by sqrt(K)."""

    def __init__(self, width: int, heads: int, bias: bool, scale: float | None):
        super().__init__()
        self.heads, self.scale = heads, scale
        self.qkv, self.out = nn.Linear(width, 3 * width, bias), nn.Linear(width, width, bias)

    def forward(self, x: torch.Tensor, **mask: Any) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, scale=self.scale, **mask)
        return self.out(y.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    """Attention to a memory, whose keys and values are one product.

    Attributes:
      source: width of the memory.
      inner: width of the queries. If None, both are `width`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        bias: bool,
        scale: float | None,
        source: int | None = None,
        inner: int | None = None,
    ):
        super().__init__()
        self.heads, self.scale = heads, scale
        inner = inner or width
        self.query, self.key_value = nn.Linear(width, inner, bias), nn.Linear(source or width, 2 * inner, bias)
        self.out = nn.Linear(inner, width, bias)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, **mask: Any) -> torch.Tensor:
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.key_value(memory).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, scale=self.scale, **mask)
        return self.out(y.transpose(1, 2).flatten(2))


def post_norm(x: torch.Tensor, norm: nn.Module, branch: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return norm(x + branch(x))


def pre_norm(x: torch.Tensor, norm: nn.Module, branch: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return x + branch(norm(x))


class EncoderLayer(nn.Module):
    """Self-attention and an MLP with ReLU, each with its norm in the order `residual`."""

    def __init__(self, width: int, heads: int, norm: Any, residual: Any, bias: bool, scale: float | None):
        super().__init__()
        self.residual, self.attention = residual, SelfAttention(width, heads, bias, scale)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width, bias), nn.ReLU(), nn.Linear(4 * width, width, bias))
        self.norm_attention, self.norm_mlp = norm(width), norm(width)

    def forward(self, x: torch.Tensor, mask: dict[str, Any]) -> torch.Tensor:
        x = self.residual(x, self.norm_attention, lambda x: self.attention(x, **mask))
        return self.residual(x, self.norm_mlp, self.mlp)


class DecoderLayer(EncoderLayer):
    """The same with cross-attention between both."""

    def __init__(self, width: int, heads: int, norm: Any, residual: Any, bias: bool, scale: float | None):
        super().__init__(width, heads, norm, residual, bias, scale)
        self.cross, self.norm_cross = CrossAttention(width, heads, bias, scale), norm(width)

    def forward(
        self, x: torch.Tensor, mask: dict[str, Any], memory: torch.Tensor, across: dict[str, Any]
    ) -> torch.Tensor:
        x = self.residual(x, self.norm_attention, lambda x: self.attention(x, **mask))
        x = self.residual(x, self.norm_cross, lambda x: self.cross(x, memory, **across))
        return self.residual(x, self.norm_mlp, self.mlp)


def waves(length: int, width: int) -> torch.Tensor:
    """Sines in the even and cosines in the odd channels, [length width]."""
    angles = torch.arange(length)[:, None] * 10000.0 ** (-2 * torch.arange(width // 2) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Transformer(nn.Module):
    """The loss of Vaswani et al. 2017, with its label smoothing: post-norm, sines, one embedding for all.

    Padding of the target is at its end, so that the causal mask keeps it from the other tokens.
    """

    def __init__(self, vocab: int, source: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        nn.init.normal_(self.embed.weight, std=width**-0.5)
        layer = width, heads, functools.partial(nn.LayerNorm, eps=1e-5), post_norm, True, None
        self.encoder = nn.ModuleList(EncoderLayer(*layer) for _ in range(depth))
        self.decoder = nn.ModuleList(DecoderLayer(*layer) for _ in range(depth))
        self.register_buffer("waves", waves(max(source, length), width), persistent=False)

    def embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embed(tokens) * self.embed.weight.shape[1] ** 0.5 + self.waves[: tokens.shape[1]]

    def forward(
        self, source: torch.Tensor, real: torch.Tensor, tokens: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        seen = {"attn_mask": real[:, None, None]}
        memory, x = self.embedded(source), self.embedded(tokens)
        for layer in self.encoder:
            memory = layer(memory, seen)
        for layer in self.decoder:
            x = layer(x, {"is_causal": True}, memory, seen)
        logits = (x @ self.embed.weight.T).float().flatten(0, 1)
        return F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED, label_smoothing=0.1)


def buckets(length: int, per_side: int, first_ahead: int) -> torch.Tensor:
    """T5's bucket of each pair of a query and a key, [length length].

    Args:
      per_side: buckets of one direction; half of them are for one distance each.
      first_ahead: the first bucket of later keys. 0 if none is seen.
    """
    distance = torch.arange(length)[None] - torch.arange(length)[:, None]
    away, exact = distance.abs() if first_ahead else (-distance).clamp(min=0), per_side // 2
    ratio = (away.clamp(min=exact) / exact).log() / math.log(128 / exact)
    far = (exact + (ratio * (per_side - exact)).long()).clamp(max=per_side - 1)
    return torch.where(away < exact, away, far) + first_ahead * (distance > 0)


class T5(nn.Module):
    """The loss of T5 version 1.0: pre-norm, RMSNorm, no biases, a bias of the scores for each bucket of distances."""

    def __init__(self, vocab: int, source: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.embed, self.width = nn.Embedding(vocab, width), width
        norm = functools.partial(nn.RMSNorm, eps=1e-6)
        layer = width, heads, norm, pre_norm, False, 1.0
        self.encoder = nn.ModuleList(EncoderLayer(*layer) for _ in range(depth))
        self.decoder = nn.ModuleList(DecoderLayer(*layer) for _ in range(depth))
        self.norm_encoder, self.norm_decoder = norm(width), norm(width)
        self.relative_both, self.relative_past = nn.Embedding(32, heads), nn.Embedding(32, heads)
        for each in (*self.encoder, *self.decoder):  # queries are drawn smaller, as scores are not divided by sqrt(K)
            nn.init.normal_(each.attention.qkv.weight[:width], std=(width * width / heads) ** -0.5)
        for each in self.decoder:
            nn.init.normal_(each.cross.query.weight, std=(width * width / heads) ** -0.5)
        self.register_buffer("both", buckets(source, 16, 16), persistent=False)
        self.register_buffer("past", buckets(length, 32, 0), persistent=False)
        self.register_buffer("causal", torch.ones(length, length, dtype=torch.bool).tril(), persistent=False)

    def forward(
        self, source: torch.Tensor, real: torch.Tensor, tokens: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        real = real[:, None, None]
        both = self.relative_both(self.both).permute(2, 0, 1)[None].masked_fill(~real, -torch.inf)
        past = self.relative_past(self.past).permute(2, 0, 1)[None].masked_fill(~self.causal, -torch.inf)
        memory, x = self.embed(source), self.embed(tokens)
        for layer in self.encoder:
            memory = layer(memory, {"attn_mask": both.to(memory.dtype)})
        memory = self.norm_encoder(memory)
        for layer in self.decoder:
            x = layer(x, {"attn_mask": past.to(x.dtype)}, memory, {"attn_mask": real})
        logits = (self.norm_decoder(x) * self.width**-0.5) @ self.embed.weight.T
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def made_up(size: dict[str, int]) -> tuple[torch.Tensor, ...]:
    """A batch of noise: sources [B S], which of their tokens are real, targets' inputs [B L], and targets."""
    batch, vocab = size["batch"], min(size["vocab"], 1000)

    def side(length: int) -> tuple[torch.Tensor, torch.Tensor]:
        ends = torch.randint(length // 2, length + 1, (batch, 1))
        return torch.randint(0, vocab, (batch, length)), torch.arange(length) < ends

    (source, real), (tokens, answered) = side(size["source"]), side(size["length"])
    return source, real, tokens, torch.randint(0, vocab, tokens.shape).masked_fill(~answered, IGNORED)
