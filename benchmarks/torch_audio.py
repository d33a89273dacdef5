"""Models of audio in PyTorch: transformers' own classes, and for the Branchformer ESPnet's."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class EncoderWithClasses(nn.Module):
    """The loss of a class from the mean of an encoder's tokens."""

    def __init__(self, encoder: nn.Module, width: int, classes: int):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(width, classes)

    def tokens(self, features: torch.Tensor) -> torch.Tensor:
        """What the encoder gives for features without padding, [B, L, D]."""
        raise NotImplementedError

    def forward(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.tokens(features).mean(1)).float(), labels)


class Conformer(EncoderWithClasses):
    """The encoder of Parakeet of transformers."""

    def __init__(self, frames: int, bins: int, kernel: int, classes: int, width: int, depth: int, heads: int):
        from transformers import ParakeetEncoder, ParakeetEncoderConfig

        sizes = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
        stem = {"subsampling_factor": 4, "subsampling_conv_channels": width, "num_mel_bins": bins, "scale_input": False}
        rates = dict.fromkeys(("dropout", "layerdrop", "activation_dropout", "attention_dropout"), 0.0)
        more = {"intermediate_size": 4 * width, "conv_kernel_size": kernel}
        super().__init__(ParakeetEncoder(ParakeetEncoderConfig(**sizes, **stem, **rates, **more)), width, classes)

    def tokens(self, features: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(features.shape[:2], dtype=torch.long, device=features.device)
        return self.encoder(features, mask).last_hidden_state


class Branchformer(EncoderWithClasses):
    """ESPnet's encoder, whose branches are merged by concatenation."""

    def __init__(self, frames: int, bins: int, kernel: int, classes: int, width: int, depth: int, heads: int):
        from espnet2.asr.encoder.branchformer_encoder import BranchformerEncoder

        sizes = {"attention_heads": heads, "num_blocks": depth}
        mlp = {"cgmlp_linear_units": 8 * width, "cgmlp_conv_kernel": kernel}
        rates = dict.fromkeys(("dropout_rate", "positional_dropout_rate", "attention_dropout_rate"), 0.0)
        super().__init__(BranchformerEncoder(bins, width, **sizes, **mlp, **rates), width, classes)

    def tokens(self, features: torch.Tensor) -> torch.Tensor:
        lengths = torch.full((len(features),), features.shape[1], device=features.device)
        return self.encoder(features, lengths)[0]


class SpectrogramTransformer(nn.Module):
    """The loss of a class by the Audio Spectrogram Transformer of transformers."""

    def __init__(
        self, frames: int, bins: int, patch: int, stride: int, classes: int, width: int, depth: int, heads: int
    ):
        from transformers import ASTConfig, ASTForAudioClassification

        super().__init__()
        sizes = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
        patches = {"patch_size": patch, "frequency_stride": stride, "time_stride": stride}
        image = {"max_length": frames, "num_mel_bins": bins}
        more = {"intermediate_size": 4 * width, "num_labels": classes}
        self.model = ASTForAudioClassification(ASTConfig(**sizes, **patches, **image, **more))

    def forward(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(features).logits.float(), labels)


class Speech2Text(nn.Module):
    """The loss of each token of a text by Speech2Text of transformers."""

    def __init__(
        self,
        frames: int,
        bins: int,
        length: int,
        vocab: int,
        channels: int,
        width: int,
        encoder_depth: int,
        depth: int,
        heads: int,
    ):
        from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

        super().__init__()
        sizes: dict[str, Any] = {"d_model": width, "vocab_size": vocab, "max_target_positions": length}
        layers = {"layers": depth, "attention_heads": heads, "ffn_dim": 4 * width, "layerdrop": 0.0}
        sizes |= {f"decoder_{name}": value for name, value in layers.items()}
        sizes |= {f"encoder_{name}": value for name, value in layers.items()} | {"encoder_layers": encoder_depth}
        stem = {"input_feat_per_channel": bins, "max_source_positions": frames, "conv_channels": channels}
        self.model = Speech2TextForConditionalGeneration(Speech2TextConfig(**sizes, **stem, dropout=0.0))

    def forward(
        self, features: torch.Tensor, mask: torch.Tensor, tokens: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        logits = self.model(features, mask, decoder_input_ids=tokens).logits
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


KINDS: dict[str, type[nn.Module]] = {
    "conformer": Conformer,
    "branchformer": Branchformer,
    "ast": SpectrogramTransformer,
    "speech2text": Speech2Text,
}


def made_up(size: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Features and labels without padding; or features and tokens, of each of which at least a half is not padding."""
    batch, frames = size["batch"], size["frames"]
    features = torch.randn(batch, frames, size["bins"])
    if "classes" in size:
        return features, torch.randint(0, size["classes"], (batch,))
    mask, answered = (mask_of(batch, length) for length in (frames, size["length"]))
    tokens, targets = torch.randint(2, min(size["vocab"], 1000), (2, batch, size["length"]))
    return features * mask[..., None], mask, tokens, targets.masked_fill(answered == 0, -100)


def mask_of(batch: int, length: int) -> torch.Tensor:
    """A mask of padding, int64 [batch, length]; at least a half of each row is not padding."""
    return (torch.arange(length) < torch.randint(length // 2, length + 1, (batch, 1))).long()
