"""Splits of a TFDS data set, and slices of them."""

from pathlib import Path
from typing import Any

from txjax.errors import UserError, near_misses


def check_split(builder: Any, split: str) -> None:
    """Raises UserError unless a builder has this split, and, if it is prepared, records of it that can be read."""
    from tensorflow_datasets import core  # takes seconds

    splits = list(builder.info.splits) if builder.is_prepared() else list(builder.SPLITS)
    for part in split.split("+"):
        base = part.split("[")[0].strip()
        if base not in splits:
            raise UserError(
                "data.split", f"splits of {builder.name} ({', '.join(splits)})", split, near_misses(base, splits)
            )
    if not builder.is_prepared():
        return
    try:
        slices = core.ReadInstruction.from_spec(split).to_absolute(builder.info.splits)
        shards = builder.info.splits[split].file_instructions
    except Exception as error:
        hint = reason_of(error)
        raise UserError("data.split", "TFDS's split syntax, such as train[:90%]", split, hint=hint) from error
    # TFDS may read [2:1] as [2:].
    if not shards or any(part.to is not None and part.to < (part.from_ or 0) for part in slices):
        raise UserError("data.split", f"a part of {builder.info.full_name} with records in it", split)
    again = f"delete {builder.data_path} and prepare it with --file_format=array_record"
    formats = [file_format.value for file_format in builder.info.available_file_formats()]
    if "array_record" not in formats:
        raise UserError("data.name", f"{builder.info.full_name} as array_record", ", ".join(formats), hint=again)
    if lost := [shard.filename for shard in shards if not Path(shard.filename).is_file()]:
        raise UserError("data.name", f"all files of {builder.info.full_name}", f"no {lost[0]}", hint=again)


def reason_of(error: Exception) -> str:
    """The first line of an error's message, which may have hundreds."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:200] if lines else type(error).__name__
