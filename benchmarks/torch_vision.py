"""Hierarchical image models in PyTorch, as their authors wrote them, with fused attention."""

import torch
import torch.nn.functional as F
from torch import nn


class WindowBlock(nn.Module):
    """A layer of Swin: attention in windows of a grid [B R C D], shifted or not, and an MLP."""

    def __init__(self, width: int, heads: int, side: int, shift: int, grid: int):
        super().__init__()
        if grid <= side:
            side, shift = grid, 0
        self.heads, self.side, self.shift, self.grid = heads, side, shift, grid
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.table = nn.Parameter(0.02 * torch.randn((2 * side - 1) ** 2, heads))
        row, column = torch.arange(side**2) // side, torch.arange(side**2) % side
        far = [x[:, None] - x[None] + side - 1 for x in (row, column)]
        self.register_buffer("offsets", far[0] * (2 * side - 1) + far[1])
        padded = -(-grid // side) * side
        if shift:
            part = torch.bucketize(torch.arange(padded), torch.tensor([padded - side, padded - shift]), right=True)
            regions = self.cut((3 * part[:, None] + part[None]).view(1, padded, padded, 1))[..., 0]
            apart = regions[:, :, None] != regions[:, None]
            self.register_buffer("mask", apart.float().mul(-100.0)[:, None])

    def cut(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, columns, width = x.shape
        tiles = x.view(batch, rows // self.side, self.side, columns // self.side, self.side, width)
        return tiles.transpose(2, 3).reshape(-1, self.side**2, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, size, _, width = x.shape
        more = -size % self.side
        x = F.pad(x, (0, 0, 0, more, 0, more)) if more else x
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x
        count = x.shape[1] // self.side
        windows = self.cut(x)
        q, k, v = self.qkv(windows).view(len(windows), -1, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.table[self.offsets.view(-1)].view(*self.offsets.shape, -1).permute(2, 0, 1)[None]
        if self.shift:
            bias = (bias + self.mask).repeat(batch, 1, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, bias.expand(len(windows), -1, -1, -1))
        y = self.out(y.transpose(1, 2).reshape(len(windows), -1, width))
        y = y.view(batch, count, count, self.side, self.side, width).transpose(2, 3).reshape(x.shape)
        y = torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y
        return y[:, :size, :size]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Merging(nn.Module):
    """2 x 2 tokens as one."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        odd = x.shape[1] % 2
        x = F.pad(x, (0, 0, 0, odd, 0, odd)) if odd else x
        parts = [x[:, i::2, j::2] for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))]
        return self.linear(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    """Classification loss of a Swin Transformer."""

    def __init__(
        self, image: int, patch: int, side: int, classes: int, width: int, depths: tuple[int, ...], heads: int
    ):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, width, patch, patch), nn.LayerNorm(width)
        grid, layers = image // patch, []
        for i, depth in enumerate(depths):
            if i:
                layers.append(Merging(width))
                width, heads, grid = 2 * width, 2 * heads, -(-grid // 2)
            layers += [WindowBlock(width, heads, side, side // 2 * (j % 2), grid) for j in range(depth)]
        self.layers = nn.Sequential(*layers)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.stem_norm(self.stem(image).permute(0, 2, 3, 1)))
        return F.cross_entropy(self.head(self.norm(x).mean((1, 2))).float(), label)


class ConvBlock(nn.Module):
    """A layer of ConvNeXt."""

    def __init__(self, width: int):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, 1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mlp(self.norm(self.conv(x).permute(0, 2, 3, 1)))
        return x + (self.scale * y).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    """Layer normalization of images [B D R C] over the channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """Classification loss of a ConvNeXt, whose images are in PyTorch's faster memory format, channels last."""

    def __init__(self, image: int, patch: int, classes: int, width: int, depths: tuple[int, ...]):
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, patch, patch), ChannelNorm(width, 1e-6)]
        for i, depth in enumerate(depths):
            if i:
                layers += [ChannelNorm(width, 1e-6), nn.Conv2d(width, 2 * width, 2, 2)]
                width = 2 * width
            layers += [ConvBlock(width) for _ in range(depth)]
        self.layers = nn.Sequential(*layers).to(memory_format=torch.channels_last)
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = self.layers(image.contiguous(memory_format=torch.channels_last))
        return F.cross_entropy(self.head(self.norm(x.mean((2, 3)))).float(), label)
