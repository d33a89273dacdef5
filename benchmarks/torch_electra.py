"""ELECTRA in PyTorch, eager code for speed: what txjax is timed against."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_block import Block  # beside this file

MASK, WEIGHT = 3, 50.0  # the id of the mask token, and the weight of the discriminator's loss
EPS = 1e-12


class Encoder(nn.Module):
    """The norm of the embeddings, their projection to the width, and post-norm layers."""

    def __init__(self, embed_width: int, width: int, depth: int, heads: int):
        super().__init__()
        self.norm, self.project = nn.LayerNorm(embed_width, EPS), nn.Linear(embed_width, width)
        self.blocks = nn.ModuleList(Block(width, heads, EPS, False, True, "none") for _ in range(depth))

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        x = self.project(self.norm(embedded))
        for block in self.blocks:
            x = block(x)
        return x


class Electra(nn.Module):
    """The sum of both losses of Clark et al. 2020, in the proportions of its small model, with shared embeddings.

    The embeddings have half the width, and the generator has a quarter of it and of the heads.
    """

    def __init__(self, vocab: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        size, small = width // 2, width // 4
        self.embed, self.positions, self.types = (nn.Embedding(rows, size) for rows in (vocab, length, 2))
        self.generator = Encoder(size, small, depth, heads // 4)
        self.transform = nn.Sequential(nn.Linear(small, size), nn.GELU(), nn.LayerNorm(size, EPS))
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.discriminator = Encoder(size, width, depth, heads)
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.embed(tokens) + self.positions.weight + self.types.weight[0]

    def forward(self, tokens: torch.Tensor, masked: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        x = self.generator(self.embedded(masked))
        picked = x.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        logits = (self.transform(picked) @ self.embed.weight.T + self.bias).float()
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.gather(1, chosen).flatten())
        seen = tokens.scatter(1, chosen, self.sampled(logits.detach()))
        scores = self.head(self.discriminator(self.embedded(seen)))[..., 0].float()
        return loss + WEIGHT * F.binary_cross_entropy_with_logits(scores, (seen != tokens).float())

    @staticmethod
    def sampled(logits: torch.Tensor) -> torch.Tensor:
        """A token id for each row: the first arrival of exponential clocks, faster than `torch.multinomial`."""
        return (logits.softmax(-1) / torch.empty_like(logits).exponential_()).argmax(-1)
