"""The experiment of an imported model that answers questions about images. Its data are a folder still to be named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txjax.data import ConversationFiles, Conversations, TokenizerFolder
from txjax.errors import UserError
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.interop.huggingface.folder_tokenizer import folder_tokenizer
from txjax.interop.huggingface.image_reading import image_fields
from txjax.models.multimodal.llava.llava import LLaVA
from txjax.objectives import NextToken


def conversation_experiment(model: LLaVA, folder: Path, kept: Path) -> Experiment:
    """The training of answers in conversations of LLaVA's form, in Vicuna's template.

    Args:
      folder: with the files beside the weights.
      kept: where the experiment finds them, once they are there.

    Raises:
      UserError: there is no tokenizer that has the model's image token, or no preprocessor_config.json, or one that
        txjax can't follow.
    """
    tokenizer = folder_tokenizer(folder, model.vocab)
    marker = tokenizer.name_of([model.image_token])
    if marker is None:
        expected = f"a tokenizer with the token {model.image_token}, which stands for an image"
        raise UserError("--from", expected, f"{tokenizer.vocab()} tokens in {folder}")
    fields = image_fields(folder)
    vision: Any = model.vision
    grid = vision.grid(*fields["shape"][:2])
    data = Conversations(
        source=ConversationFiles(),
        split="train",
        tokenizer=TokenizerFolder(path=str(kept)),
        marker=marker,
        image_tokens=grid.rows * grid.columns,
        **fields,
    )
    held_out = Conversations(split="validation", transforms=data.transforms)
    evals: dict[str, Any] = {"valid": Evaluation(data=held_out)}
    return Experiment(model=model, objective=NextToken(), data=data, evals=evals, batch_size=8)
