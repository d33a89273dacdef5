"""Reads tensors of one or several safetensors files lazily, and writes shards. A pickle is never opened."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_dtypes  # noqa: F401 - registers bfloat16 with numpy
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from txjax.errors import UserError
from txjax.io.files import replace_text
from txjax.tree import read_json

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt", "*.h5", "*.msgpack")


class Tensor(NamedTuple):
    """An array that `read` loads lazily."""

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def read(directory: Path, single: str = SINGLE) -> dict[str, Tensor]:
    """The tensors of a folder by name; `Tensor.read` returns float32.

    Args:
      single: the name of the file, if it is one.

    Raises:
      UserError: no safetensors file (pickles are named and not opened), a missing or damaged shard, a tensor that is
        not of floats.
    """
    tensors: dict[str, Tensor] = {}
    for name in _files(directory, single):
        path = directory / name
        if not path.is_file():
            raise UserError(str(directory), f"the shard {name} that {INDEX} names", "no such file")
        try:
            file = safe_open(path, framework="np")
        except SafetensorError as error:
            raise UserError(str(path), "an undamaged safetensors file", hint=str(error)) from error
        for key in sorted(file.keys()):
            part = file.get_slice(key)
            tensors[key] = Tensor(tuple(part.get_shape()), _reader(file, key, part.get_dtype(), path))
    return tensors


def take(where: str, tensors: dict[str, Tensor], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Takes a tensor out of `tensors`. Raises UserError if there is none, or one of another shape.

    Args:
      where: the folder.
    """
    check_shape(where, tensors, name, shape)
    return tensors.pop(name).read()


def check_shape(where: str, tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...]) -> None:
    """Raises UserError, naming the folder `where`, if there is no such tensor, or one of another shape."""
    if name not in tensors or tensors[name].shape != shape:
        got = list(tensors[name].shape) if name in tensors else "none"
        raise UserError(where, f"{name} of {list(shape)}, for this model", got)


def _reader(file: safe_open, key: str, dtype: str, path: Path) -> Callable[[], np.ndarray]:
    def get() -> np.ndarray:
        if dtype not in ("F64", "F32", "F16", "BF16"):
            raise UserError(str(path), f"{key} as 64, 32 or 16 bit floats", dtype)
        with np.errstate(over="ignore"):  # of 64 bits, which are refused below
            array = file.get_tensor(key).astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            raise UserError(str(path), f"finite numbers in {key}", "NaN or infinity")
        return array

    return get


def _files(directory: Path, single: str) -> list[str]:
    if (directory / INDEX).is_file():
        files = read_json(directory / INDEX).get("weight_map")
        if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
            raise UserError(str(directory / INDEX), "weight_map, an object with a file for each tensor")
        names = sorted(set(files.values()))
        if outside := [name for name in names if Path(name).name != name]:
            raise UserError(str(directory / INDEX), "names of files beside it", outside[0])
        return names
    if (directory / single).is_file():
        return [single]
    pickles = sorted(path.name for pattern in _PICKLES for path in directory.glob(pattern))
    hint = ""
    if pickles:
        hint = f"weights of this kind are not read, since they can run code; {_conversion(directory, pickles, single)}"
    raise UserError(str(directory), f"{single} or {INDEX}", ", ".join(pickles) or "neither", hint=hint)


def _conversion(directory: Path, pickles: Sequence[str], single: str) -> str:
    """How to convert the pickles of a folder, with PyTorch."""
    pickle = f"{Path(single).stem}.bin"
    at = directory.absolute()
    if pickle in pickles:  # an adapter
        code = "import torch, safetensors.torch as s"
        code += f"; s.save_file(torch.load({str(at / pickle)!r}, weights_only=True), {str(at / single)!r})"
    elif any(name.startswith("pytorch_model") for name in pickles):
        config = directory / "config.json"
        names = read_json(config).get("architectures") if config.is_file() else None
        name = names[0] if isinstance(names, list) and names and str(names[0]).isidentifier() else "AutoModel"
        code = f"from transformers import {name} as C; C.from_pretrained({str(at)!r}).save_pretrained({str(at)!r})"
    else:
        return "save them with save_pretrained"
    return f'to convert them: python -c "{code}"'


def write(directory: Path, tensors: dict[str, Tensor], shard_bytes: int, single: str = SINGLE) -> None:
    """Writes float32 tensors to files of at most `shard_bytes` (or one tensor), and an index if there are several.

    Args:
      single: the name of the file, if it is one.

    Raises:
      UserError: the folder already has weights.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if there := sorted(path.name for path in directory.glob("*.safetensors*")):
        raise UserError(str(directory), "a folder without weights", there[0], hint="take another, or remove them")
    shards: list[list[str]] = [[]]
    filled = 0
    for name, tensor in tensors.items():
        size = _bytes(tensor)
        if shards[-1] and filled + size > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size
    names = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
    names = [single] if len(shards) == 1 else names
    for name, keys in zip(names, shards, strict=True):
        arrays = {key: np.asarray(tensors[key].read(), np.float32, order="C") for key in keys}
        (directory / name).touch()
        mode = (directory / name).stat().st_mode  # as the umask has it; the library writes files of mode 0600
        save_file(arrays, directory / name, metadata={"format": "pt"})
        (directory / name).chmod(mode)
    if len(shards) > 1:
        total = sum(map(_bytes, tensors.values()))
        where = {key: name for name, keys in zip(names, shards, strict=True) for key in keys}
        index = {"metadata": {"total_size": total}, "weight_map": where}
        replace_text(directory / INDEX, json.dumps(index, indent=2) + "\n")


def _bytes(tensor: Tensor) -> int:
    return 4 * int(np.prod(tensor.shape, dtype=np.int64))
