"""A Conformer in PyTorch: the encoder of Parakeet of transformers, the mean of its tokens and a linear layer."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Conformer(nn.Module):
    """The loss of a class of an utterance."""

    def __init__(self, frames: int, bins: int, kernel: int, classes: int, width: int, depth: int, heads: int):
        from transformers import ParakeetEncoder, ParakeetEncoderConfig

        super().__init__()
        sizes = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
        stem = {"subsampling_factor": 4, "subsampling_conv_channels": width, "num_mel_bins": bins, "scale_input": False}
        rates = dict.fromkeys(("dropout", "layerdrop", "activation_dropout", "attention_dropout"), 0.0)
        more = {"intermediate_size": 4 * width, "conv_kernel_size": kernel}
        self.encoder = ParakeetEncoder(ParakeetEncoderConfig(**sizes, **stem, **rates, **more))
        self.head = nn.Linear(width, classes)

    def forward(self, features: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        tokens = self.encoder(features, mask).last_hidden_state
        return F.cross_entropy(self.head(tokens.mean(1)).float(), labels)


def made_up(size: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Features without padding, their mask and labels."""
    batch, frames = size["batch"], size["frames"]
    features = torch.randn(batch, frames, size["bins"])
    return features, torch.ones(batch, frames, dtype=torch.long), torch.randint(0, size["classes"], (batch,))
