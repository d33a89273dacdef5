"""Checks of a model that reads images in a text against conversations: the token of a patch, and how many there are."""

from typing import Any

from txjax.data import Conversations, Dataset
from txjax.data.loading.limits import find_size
from txjax.errors import UserError
from txjax.tree import walk


def check_image_tokens(model: Any, data: Dataset, field: str = "config.data") -> None:
    """Raises UserError if the tokens of images are others than the model's, or not as many as its tower has patches."""
    image_token = find_size(model, "image_token")
    patch = find_size(model, "vision.patch")
    for path, node in walk(data, field):
        if not isinstance(node, Conversations) or image_token is None:
            continue
        token = node.encoder().image_token
        if image_token[1] != token:
            expected = f"{token}, the token {node.marker} of {path}"
            raise UserError(f"config.model.{image_token[0]}", expected, image_token[1])
        if patch is None:
            continue
        patches = (node.shape[0] // patch[1]) * (node.shape[1] // patch[1])
        if node.image_tokens != patches:
            tower = f"config.model.{patch[0]} = {patch[1]}"
            raise UserError(
                f"{path}.image_tokens", f"{patches}, the patches of {node.shape[:2]} by {tower}", node.image_tokens
            )
