"""Prompts of a model that answers questions about images."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float32

from txjax.data import Conversations
from txjax.data.images.image_files import UnreadableImage, decode_image
from txjax.data.images.image_records import Normaliser
from txjax.data.multimodal.conversation_templates import MARKER, Turn
from txjax.data.multimodal.record_images import ImageStack
from txjax.decoding.generator import Inputs
from txjax.decoding.prompts import Ids, Prompts, pad_prompts
from txjax.errors import UserError


class PicturedPrompt(NamedTuple):
    """A question about images.

    Attributes:
      question: the text; images without a marker in it are before it.
      images: the paths of their files.
    """

    question: str
    images: tuple[str, ...] = ()

    def turn(self) -> Turn:
        """The question with a marker for each image, without an answer."""
        missing = len(self.images) - self.question.count(MARKER)
        return Turn(f"{MARKER}\n" * missing + self.question, None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PicturedPrompts(Prompts):
    """Prompts of a run on `Conversations`: each is a question, in the form of its template, about some images.

    Attributes:
      conversations: the training data.
    """

    flag: ClassVar[str] = "--image"

    conversations: Conversations

    @classmethod
    def of(cls, data: Conversations) -> "PicturedPrompts":
        """The prompts of a model that is trained on these data."""
        end = data.template.end_token(data.tokenizer)
        return cls(data.tokenizer, data.tokenizer.roles().eos if end is None else (end,), conversations=data)

    def inputs(self, prompts: Sequence[PicturedPrompt], field: str) -> Inputs:
        data = self.conversations
        encoder = data.encoder()
        for prompt in prompts:
            check_markers(prompt, data.most_images, field)
        rows = encoder.encode([[prompt.turn()] for prompt in prompts])
        tokens = [row.with_patches(encoder.image_token, data.image_tokens).ids for row in rows]
        if (longest := max(map(len, tokens))) >= data.length:
            expected = f"questions of fewer than {data.length} tokens with those of their images, data.length"
            raise UserError("--prompt", expected, longest)
        return {**pad_prompts(tokens), **self.images(prompts, field)}

    def images(self, prompts: Sequence[PicturedPrompt], field: str) -> Inputs:
        """The images of prompts as keys of a batch: `images` [B I H W C], or `image` [B H W C] where there is one.

        Raises:
          UserError: a file is missing or damaged.
        """
        images = np.stack([self._read_images(prompt.images, field) for prompt in prompts])
        return {"images": images} if self.conversations.most_images > 1 else {"image": images[:, 0]}

    def text_before(self, prompt: PicturedPrompt) -> str:
        return prompt.question + "\n"

    def text(self, prompt: PicturedPrompt, ids: Ids) -> str:
        return self.tokenizer.decode(ids).strip()

    def record(self, prompt: PicturedPrompt) -> dict[str, Any]:
        return {"prompt": prompt.question, "image": list(prompt.images)}

    def _read_images(self, paths: Sequence[str], field: str) -> Float32[np.ndarray, "I H W C"]:
        """The images of a prompt, prepared as the training data are."""
        data = self.conversations
        normaliser = Normaliser(data.mean, data.std, *data.shape[1:])
        stack = ImageStack(data.most_images, data.shape, data.transforms, normaliser)
        pixels = [read_image(path, data.shape[2], field) for path in paths]
        return stack.build(pixels, ", ".join(paths), np.random.default_rng(0))


def check_markers(prompt: PicturedPrompt, most: int, field: str) -> None:
    """Raises UserError for more images than the run reads, or more markers than images."""
    if len(prompt.images) > most:
        raise UserError(field, f"at most {most} images, config.data.most_images", len(prompt.images))
    markers = prompt.question.count(MARKER)
    if markers > len(prompt.images) or 0 < markers < len(prompt.images):
        raise UserError(field, f"as many images as {MARKER} is in the question, {markers}", len(prompt.images))


def read_image(path: str, channels: int, field: str) -> np.ndarray:
    """The pixels of a file, uint8 [H W C]. Raises UserError if it is missing or damaged."""
    if not Path(path).is_file():
        raise UserError(field, "an image file", path)
    try:
        return decode_image(Path(path).read_bytes(), channels, (None, None))
    except UnreadableImage as error:
        raise UserError(field, "a readable image file", f"{path}: {error}") from None
