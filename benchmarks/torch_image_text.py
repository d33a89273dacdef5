"""Models of image and text in PyTorch: CLIP and LLaVA are transformers' own classes, ViLBERT and UniT are not there."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch_block import BertEncoder, Block  # beside this file, as the next two
from torch_detr import Backbone, Layer, sines
from torch_encoder_decoder import IGNORED, CrossAttention

EPS = 1e-12


def hidden_sizes(width: int, depth: int, heads: int, **more: int) -> dict[str, int]:
    """The sizes of a stack of layers as transformers names them."""
    named = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
    vocab = {"vocab_size": more["vocab"]} if "vocab" in more else {}
    return named | {"intermediate_size": 4 * width} | vocab


class CLIP(nn.Module):
    """The contrastive loss of CLIP of transformers."""

    def __init__(self, image: int, patch: int, tower: dict[str, int], length: int, text: dict[str, int]):
        from transformers import CLIPConfig, CLIPModel

        super().__init__()
        of_images = hidden_sizes(**tower) | {"image_size": image, "patch_size": patch}
        of_texts = hidden_sizes(**text) | {"max_position_embeddings": length}
        self.model = CLIPModel(CLIPConfig(text_config=of_texts, vision_config=of_images, projection_dim=text["width"]))

    def forward(self, image: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(tokens, image, mask, return_loss=True).loss


class Llava(nn.Module):
    """The loss of each token of a text by LLaVA of transformers, with a frozen tower: nothing runs backward in it."""

    def __init__(self, image: int, patch: int, tower: dict[str, int], length: int, text: dict[str, int]):
        from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

        super().__init__()
        hidden = -(-int(8 / 3 * text["width"]) // 256) * 256
        of_images = CLIPVisionConfig(**hidden_sizes(**tower), image_size=image, patch_size=patch)
        of_texts = LlamaConfig(
            **hidden_sizes(**text) | {"intermediate_size": hidden},
            max_position_embeddings=length,
            rms_norm_eps=1e-5,
            use_cache=False,
        )
        token = text["vocab"] - 1
        self.model = LlavaForConditionalGeneration(
            LlavaConfig(vision_config=of_images, text_config=of_texts, image_token_index=token)
        )
        self.model.model.vision_tower.requires_grad_(False)

    def forward(
        self, image: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        logits = self.model(tokens, image, mask).logits
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


class Connection(nn.Module):
    """A post-norm layer of a stream that reads the other one, with an MLP of its own."""

    def __init__(self, width: int, source: int, inner: int, heads: int):
        super().__init__()
        self.cross = CrossAttention(width, heads, True, None, source, inner)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm1, self.norm2 = nn.LayerNorm(width, EPS), nn.LayerNorm(width, EPS)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, mask: Any = None) -> torch.Tensor:
        x = self.norm1(x + self.cross(x, memory, attn_mask=mask))
        return self.norm2(x + self.mlp(x))


class ConnectedLayers(nn.Module):
    """A connection of both streams, and then a layer of each."""

    def __init__(self, text: int, text_heads: int, width: int, heads: int):
        super().__init__()
        self.read_image, self.encode_text = Connection(text, width, width, heads), Connection(width, text, width, heads)
        self.text = Block(text, text_heads, EPS, False, True, "none")
        self.image = Block(width, heads, EPS, False, True, "none")

    def forward(self, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        read_image, encode_text = self.read_image(x, y), self.encode_text(y, x, mask)
        return self.text(read_image, mask), self.image(encode_text)


class ViLBERT(nn.Module):
    """The loss of a class from a text and the cells of an image's grid (Lu et al. 2019)."""

    def __init__(
        self,
        image: int,
        patch: int,
        length: int,
        text: dict[str, int],
        classes: int,
        width: int,
        depth: int,
        heads: int,
    ):
        super().__init__()
        self.patch, self.text = patch, BertEncoder(length=length, **text)
        self.embed, self.place = nn.Linear(3 * patch**2, width), nn.Linear(5, width)
        self.norm = nn.LayerNorm(width, EPS)
        sizes = text["width"], text["heads"], width, heads
        self.layers = nn.ModuleList(ConnectedLayers(*sizes) for _ in range(depth))
        self.pool_text, self.pool_image = nn.Linear(text["width"], width), nn.Linear(width, width)
        self.head = nn.Linear(width, classes)
        self.register_buffer("boxes", grid_boxes(image // patch), persistent=False)

    def forward(
        self, image: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        keys = (mask > 0)[:, None, None]
        x = self.text.layers(self.text.embedded(tokens), keys)
        cells = F.unfold(image, self.patch, stride=self.patch).transpose(1, 2)
        y = self.norm(self.embed(torch.cat([cells.mean(1, True), cells], 1)) + self.place(self.boxes))
        for layer in self.layers:
            x, y = layer(x, y, keys)
        product = F.relu(self.pool_text(x[:, 0])) * F.relu(self.pool_image(y[:, 0]))
        return F.cross_entropy(self.head(product).float(), labels)


def grid_boxes(side: int) -> torch.Tensor:
    """Left, top, right, bottom and area of the whole image, and of the cells of a grid, [1 + side * side, 5]."""
    top, left = torch.meshgrid(torch.arange(side) / side, torch.arange(side) / side, indexing="ij")
    far = 1 / side
    cells = torch.stack([left, top, left + far, top + far, torch.full_like(top, far**2)], -1)
    return torch.cat([torch.tensor([[0.0, 0, 1, 1, 1]]), cells.flatten(0, 1)])


class UniT(nn.Module):
    """The loss of a class from an image and a text by a decoder that reads both (Hu and Singh 2021); one task."""

    def __init__(
        self,
        image: int,
        stages: tuple[tuple[int, int], ...],
        groups: int,
        encoder: dict[str, int],
        length: int,
        text: dict[str, int],
        tasks: int,
        queries: int,
        classes: int,
        width: int,
        depth: int,
        heads: int,
    ):
        super().__init__()
        inner = encoder["width"]
        self.backbone = Backbone(stages, lambda channels: nn.GroupNorm(groups, channels))
        self.map = nn.Linear(stages[-1][0], inner)
        self.encoder = nn.ModuleList(Layer(inner, encoder["heads"], False) for _ in range(encoder["depth"]))
        self.text = BertEncoder(length=length, **text)
        self.vision_tasks, self.text_tasks = nn.Embedding(tasks, inner), nn.Embedding(tasks, text["width"])
        self.vision_features, self.vision_positions = nn.Linear(inner, width), nn.Linear(inner, width)
        self.text_features, self.text_positions = (nn.Linear(text["width"], width) for _ in range(2))
        self.queries = nn.Parameter(torch.randn(1, queries, width))
        self.decoder = nn.ModuleList(Layer(width, heads, True) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, EPS), nn.Linear(width, classes)
        )

    def forward(
        self, image: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        x, positions = self.read_image(image)
        text, words = self.encode_text(tokens, mask), self.text_positions(self.text.positions.weight)
        map_positions = self.vision_positions(positions)
        memory = torch.cat([self.vision_features(x), self.text_features(text)], 1)
        added = torch.cat([map_positions, words])
        keys = F.pad(mask > 0, (len(map_positions), 0), value=True)[:, None, None]
        y = torch.zeros_like(self.queries).expand(len(x), -1, -1)
        for layer in self.decoder:
            y = layer(y, self.queries, memory, added, keys)
        return F.cross_entropy(self.head(self.norm(y[:, 0])).float(), labels)

    def read_image(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The features of a map [B N D], and their positions [N D]."""
        features = self.backbone(image)
        rows, columns = features.shape[2:]
        x = self.map(features.flatten(2).transpose(1, 2))
        positions = sines(rows, columns, x.shape[-1]).to(x)
        y = torch.cat([self.vision_tasks.weight[:1].expand(len(x), 1, -1), x], 1)
        for layer in self.encoder:
            y = layer(y, F.pad(positions, (0, 0, 1, 0)))
        return x + y[:, 1:], positions[0]

    def encode_text(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The features of the tokens."""
        x = self.text.embedded(tokens)
        keys = F.pad(mask > 0, (1, 0), value=True)[:, None, None]
        return self.text.layers(torch.cat([self.text_tasks.weight[:1].expand(len(x), 1, -1), x], 1), keys)[:, 1:]


KINDS: dict[str, type[nn.Module]] = {"clip": CLIP, "llava": Llava, "vilbert": ViLBERT, "unit": UniT}


def noise(kind: str, size: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Images, tokens and their mask, and labels or targets; at least a half of each text is not padding."""
    batch, length, vocab = size["batch"], size["length"], size["text"]["vocab"]
    image = torch.randn(batch, 3, size["image"], size["image"])
    mask = (torch.arange(length) < torch.randint(length // 2, length + 1, (batch, 1))).long()
    tokens, targets = torch.randint(0, min(vocab, 1000), (2, batch, length))
    if kind == "clip":
        return image, tokens, mask
    if kind == "llava":
        tokens[:, : (size["image"] // size["patch"]) ** 2] = vocab - 1
        return image, tokens, mask, targets.masked_fill(mask == 0, IGNORED)
    return image, tokens, mask, torch.randint(0, size["classes"], (batch,))
