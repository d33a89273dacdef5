"""The same models in PyTorch, written as PyTorch users would for speed: what txjax is timed against."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch_audio as audio  # in this folder, as the next seven
import torch_detr as detr
import torch_electra as electra
import torch_encoder_decoder as encoder_decoder
import torch_image_text as image_text
import torch_vision as vision
from torch import nn
from torch_block import BertEncoder, Block
from torch_deberta import Deberta


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


class LlamaBlock(nn.Module):
    """A pre-norm layer with rotary positions, SwiGLU and no biases."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        hidden = -(-int(8 / 3 * width) // 256) * 256
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = (self.rotate(part, cos, sin).type_as(v) for part in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

    @staticmethod
    def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Llama(nn.Module):
    """Next-token loss of a Llama."""

    def __init__(self, vocab: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, width), nn.Linear(width, vocab, bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads) for _ in range(depth))
        self.norm, half = nn.RMSNorm(width, 1e-5), width // heads // 2
        angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), targets.flatten())


class Bert(nn.Module):
    """Masked-token loss of a BERT, on the positions that were chosen alone."""

    def __init__(self, vocab: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.encoder = BertEncoder(vocab, length, width, depth, heads)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, 1e-12))
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, tokens: torch.Tensor, chosen: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.encoder.layers(self.encoder.embedded(tokens))
        picked = x.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        logits = self.transform(picked) @ self.encoder.embed.weight.T + self.bias
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


KINDS: dict[str, type[nn.Module]] = {
    **audio.KINDS,
    **image_text.KINDS,
    "gpt": GPT,
    "llama": Llama,
    "bert": Bert,
    "vit": ViT,
    "transformer": encoder_decoder.Transformer,
    "t5": encoder_decoder.T5,
    "electra": electra.Electra,
    "deberta": Deberta,
    "swin": vision.Swin,
    "convnext": vision.ConvNeXt,
    "detr": detr.DETR,
}


def made_up(kind: str, size: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """A batch of noise for one of `KINDS`."""
    batch = size["batch"]
    if "source" in size:
        return encoder_decoder.made_up(size)
    if kind in audio.KINDS:
        return audio.made_up(size)
    if kind in image_text.KINDS:
        return image_text.noise(kind, size)
    if kind == "detr":
        return detr.made_up(size)
    if "image" in size:
        return torch.randn(batch, 3, size["image"], size["image"]), torch.randint(0, size["classes"], (batch,))
    vocab = min(size["vocab"], 1000)
    tokens = torch.randint(0, vocab, (batch, size["length"]))
    if kind in ("bert", "deberta", "electra"):
        count = round(0.15 * size["length"])
        chosen = torch.stack([torch.randperm(size["length"])[:count] for _ in range(batch)])
        if kind == "electra":
            return tokens, tokens.scatter(1, chosen, electra.MASK), chosen
        return tokens, chosen, torch.randint(0, vocab, chosen.shape)
    return tokens, torch.randint(0, vocab, tokens.shape)


def update_of(
    kind: str, size: dict[str, Any], dtype: str, device: str, compiled: Callable[[nn.Module], nn.Module]
) -> tuple[Callable[[], torch.Tensor], int]:
    """One update of one of `KINDS`, which gives the loss, and the number of parameters.

    Args:
      size: the model's, and `batch`.
      dtype: "bfloat16" for autocast around float32 parameters, or "float32".
      compiled: the model as it is called.
    """
    torch.manual_seed(0)
    model = KINDS[kind](**{name: value for name, value in size.items() if name != "batch"}).to(device)
    inputs = [x.to(device) for x in made_up(kind, size)]
    own, call = optimizer(model), compiled(model)

    def update() -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = call(*inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        own.step()
        own.zero_grad(set_to_none=True)
        return loss.detach()

    return update, sum(p.numel() for p in model.parameters())
