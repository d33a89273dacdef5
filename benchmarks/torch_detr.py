"""DETR in PyTorch, as its authors wrote it: matching by scipy on the host, fused attention."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import nn

WEIGHTS = {"box": 5.0, "giou": 2.0}
NO_OBJECT = 0.1


class FrozenNorm(nn.Module):
    """Batch normalization by constants."""

    def __init__(self, width: int):
        super().__init__()
        for name, value in (("scale", 1.0), ("bias", 0.0)):
            self.register_buffer(name, torch.full((1, width, 1, 1), value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.bias


Norm = Callable[[int], nn.Module]  # a norm of so many channels


def conv(norm: Norm, inputs: int, width: int, side: int, stride: int = 1) -> nn.Sequential:
    """A convolution without a bias, and its norm."""
    return nn.Sequential(nn.Conv2d(inputs, width, side, stride, side // 2, bias=False), norm(width))


class Unit(nn.Module):
    """A bottleneck of a residual network."""

    def __init__(self, norm: Norm, inputs: int, width: int, stride: int):
        super().__init__()
        inner = width // 4
        first, second = conv(norm, inputs, inner, 1), conv(norm, inner, inner, 3, stride)
        self.branch = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), conv(norm, inner, width, 1))
        self.shortcut = conv(norm, inputs, width, 1, stride) if inputs != width or stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.shortcut(x) + self.branch(x))


class Backbone(nn.Module):
    """A residual network of bottlenecks without a head, channels last; `stages` are its widths and depths."""

    def __init__(self, stages: tuple[tuple[int, int], ...], norm: Norm):
        super().__init__()
        inputs = stages[0][0] // 4
        layers = [conv(norm, 3, inputs, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for i, (channels, count) in enumerate(stages):
            for j in range(count):
                layers.append(Unit(norm, inputs, channels, 2 if i and not j else 1))
                inputs = channels
        self.layers = nn.Sequential(*layers).to(memory_format=torch.channels_last)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image.contiguous(memory_format=torch.channels_last))


class Attention(nn.Module):
    """Attention with positions in the inputs of queries and keys."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any = None) -> torch.Tensor:
        def split(x: torch.Tensor) -> torch.Tensor:
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        y = F.scaled_dot_product_attention(split(self.q(q)), split(self.k(k)), split(self.v(v)), mask)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A layer of the encoder, or with attention to a memory of the decoder."""

    def __init__(self, width: int, heads: int, cross: bool):
        super().__init__()
        self.attention, self.norm1 = Attention(width, heads), nn.LayerNorm(width)
        self.cross, self.norm2 = (Attention(width, heads), nn.LayerNorm(width)) if cross else (None, None)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.norm3 = nn.LayerNorm(width)

    def forward(
        self, x: torch.Tensor, centres: torch.Tensor, memory: Any = None, added: Any = None, mask: Any = None
    ) -> torch.Tensor:
        """`mask`: bool [B 1 1 S], of the memory."""
        q = x + centres
        x = self.norm1(x + self.attention(q, q, x))
        if self.cross is not None:
            x = self.norm2(x + self.cross(x + centres, memory + added, memory, mask))
        return self.norm3(x + self.mlp(x))


class DETR(nn.Module):
    """The loss of a DETR, auxiliary losses included."""

    def __init__(
        self, image: int, stages: tuple, queries: int, objects: int, classes: int, width: int, depth: int, heads: int
    ):
        super().__init__()
        self.backbone = Backbone(stages, FrozenNorm)
        self.project, self.queries = nn.Linear(stages[-1][0], width), nn.Parameter(torch.randn(1, queries, width))
        self.encoder = nn.ModuleList(Layer(width, heads, False) for _ in range(depth))
        self.decoder = nn.ModuleList(Layer(width, heads, True) for _ in range(depth))
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, classes + 1)
        self.boxes = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )

    def forward(self, image: torch.Tensor, boxes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Of images without padding, which needs no masks."""
        x = self.backbone(image)
        rows, columns = x.shape[2:]
        added = sines(rows, columns, self.queries.shape[-1]).to(x)
        x = self.project(x.flatten(2).transpose(1, 2))
        for layer in self.encoder:
            x = layer(x, added)
        y, found = torch.zeros_like(self.queries).expand(len(x), -1, -1), []
        for layer in self.decoder:
            y = layer(y, self.queries, x, added)
            found.append(self.norm(y))
        logits, centres = self.classes(torch.stack(found)).float(), self.boxes(torch.stack(found)).float().sigmoid()
        wanted = torch.cat([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
        pairs = zip(logits, centres, strict=True)
        return sum(criterion(own, near, wanted, labels) for own, near in pairs)  # type: ignore[return-value]


def sines(rows: int, columns: int, width: int) -> torch.Tensor:
    """The positions of a map."""
    theta = 10000.0 ** (torch.arange(width // 4) / (width // 4))
    halves = []
    for count, shape in ((rows, (rows, 1, -1)), (columns, (1, columns, -1))):
        angle = 2 * torch.pi * torch.arange(1, count + 1)[:, None] / count / theta
        wave = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        halves.append(wave.view(shape).expand(rows, columns, -1))
    return torch.cat(halves, -1).flatten(0, 1)[None]


def generalised_iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of boxes (centre, size)."""
    (a0, a1), (b0, b1) = ((x[..., :2] - x[..., 2:] / 2, x[..., :2] + x[..., 2:] / 2) for x in (a, b))
    inside = (torch.minimum(a1, b1) - torch.maximum(a0, b0)).clamp(min=0).prod(-1)
    around = (torch.maximum(a1, b1) - torch.minimum(a0, b0)).prod(-1)
    union = a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - inside
    return inside / union - (around - union) / around


def criterion(logits: torch.Tensor, centres: torch.Tensor, wanted: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of one layer's predictions, images matched one by one."""
    with torch.no_grad():
        near = (centres[:, :, None] - wanted[:, None]).abs().sum(-1)
        overlap = generalised_iou(centres[:, :, None], wanted[:, None])
        likely = torch.stack([p[:, c.clamp(min=0)] for p, c in zip(logits.softmax(-1), labels, strict=True)])
        costs = (WEIGHTS["box"] * near - likely - WEIGHTS["giou"] * overlap).cpu()
    classes = torch.full(logits.shape[:2], logits.shape[-1] - 1, device=logits.device)
    rows, columns, images = [], [], []
    for i, cost in enumerate(costs):
        real = (labels[i] >= 0).nonzero()[:, 0].cpu()
        row, column = linear_sum_assignment(cost[:, real])
        rows += row.tolist()
        columns += real[column].tolist()
        images += [i] * len(row)
    classes[images, rows] = labels[images, columns]
    weight = torch.ones(logits.shape[-1], device=logits.device)
    weight[-1] = NO_OBJECT
    loss = F.cross_entropy(logits.flatten(0, 1), classes.flatten(), weight)
    found, real = centres[images, rows], wanted[images, columns]
    distance = (found - real).abs().sum() / len(rows)
    return loss + WEIGHTS["box"] * distance + WEIGHTS["giou"] * (1 - generalised_iou(found, real)).sum() / len(rows)


def made_up(size: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """A batch of noise."""
    batch, objects = size["batch"], size["objects"]
    boxes = torch.rand(batch, objects, 2, 2).sort(2).values.flatten(2)
    labels = torch.randint(-1, size["classes"], (batch, objects))
    return torch.randn(batch, 3, size["image"], size["image"]), boxes, labels
