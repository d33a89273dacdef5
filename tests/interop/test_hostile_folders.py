"""Folders to import whose files are hostile: one line, no workdir, and nothing drawn, traced or allocated for them."""

import json
import shutil
import struct
import time

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.interop import huggingface
from txjax.interop.peft import peft
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import gpt, llama
from txjax.models.vision.mae import MAE
from txjax.nn import GatedMLP, LayerNorm, Learned, TokenClasses
from txjax.nn.adapters import IA3, LoRA, Prefix, Prompt
from txjax.types import UserError, flat_paths

from helpers.arrays import variables

TOKENS = np.zeros((1, 4), np.int32)
SIZES = {"vocab": 11, "width": 8, "depth": 1, "heads": 2}
IMAGE = {"patch": 2, "width": 8, "depth": 1, "heads": 2, "image_size": (4, 6), "norm": LayerNorm(eps=1e-12)}
MODELS = {
    "gpt2": gpt(**SIZES, max_length=16),
    "llama": llama(**SIZES, mlp=GatedMLP(hidden=8)),
    "bert": Bert(**SIZES, positions=Learned(max_length=7), head=TokenClasses(3), norm=LayerNorm(eps=1e-12)),
    "mae": MAE(**IMAGE, decoder_width=4, decoder_depth=1, decoder_heads=1),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of small models by family."""
    at = tmp_path_factory.mktemp("published")
    for name, model in MODELS.items():
        images = np.zeros((1, 4, 6, 1), np.float32)
        huggingface.save(model, variables(model, images if name == "mae" else TOKENS), at / name)
    return at


@pytest.fixture(scope="module")
def adapters(folders, tmp_path_factory):
    """Folders of adapters of the GPT-2 by kind."""
    at = tmp_path_factory.mktemp("adapters")
    model, base = huggingface.load(folders / "gpt2")
    rows = {"length": 2, "first_position": 2}
    for adapter in (LoRA(rank=2), IA3(), Prompt(**rows), Prefix(**rows)):
        tuned = model.clone(adapter=adapter)
        params = flat_paths(variables(tuned, TOKENS)["params"]) | flat_paths(base["params"])
        peft.save(tuned, params, at / type(adapter).__name__)
    return at


def change(folder, name: str, **values) -> None:
    """Replaces values in a JSON file of a folder."""
    known = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(known | values))


def refused(capsys, workdir, *words: str) -> str:
    """The line of a refused import, which comes at once and makes no workdir."""
    start = time.monotonic()
    assert main(["import", f"--workdir={workdir}", *words]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and not workdir.exists() and time.monotonic() - start < 20, error
    return error


CONFIGS = {
    "model_type is a list": ("gpt2", {"model_type": ["gpt2"]}, "model_type: expected one of"),
    "model_type is an object": ("gpt2", {"model_type": {}}, "model_type: expected one of"),
    "architectures is a number": ("gpt2", {"architectures": 3}, "architectures: expected one of"),
    "architectures has a list": ("gpt2", {"architectures": [["GPT2Model"]]}, "architectures: expected one of"),
    "a billion layers": ("gpt2", {"n_layer": 10**9}, "n_layer: expected at most 256, for the tensors of this folder"),
    "256 layers": ("gpt2", {"n_layer": 256}, "transformer.h.1.ln_1.weight: expected a tensor of that name"),
    "a billion channels": ("gpt2", {"n_embd": 10**9}, "n_embd: expected at most 4096, for the tensors of this folder"),
    "4096 channels": ("gpt2", {"n_embd": 4096}, "wte.weight: expected 45,056 numbers, for the sizes in config.json"),
    "a billion tokens": ("gpt2", {"vocab_size": 10**9}, "vocab_size: expected at most 4096"),
    "a billion types": ("bert", {"type_vocab_size": 10**9}, "type_vocab_size: expected at most 4096"),
    "an infinite number": ("bert", {"layer_norm_eps": float("inf")}, "layer_norm_eps: expected a finite number"),
    "no number": ("llama", {"rms_norm_eps": float("nan")}, "rms_norm_eps: expected a finite number, got nan"),
    "a number of 400 digits": ("llama", {"rms_norm_eps": 10**400}, "rms_norm_eps: expected a finite number, got inf"),
    "theta is a list": ("llama", {"rope_parameters": {"rope_theta": []}}, "rope_parameters.rope_theta: expected"),
    "a huge image": ("mae", {"image_size": [10**9, 10**9]}, "image_size: expected at most 4096"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_values_of_config_json_are_a_line_before_anything_is_traced(name, folders, tmp_path, capsys):
    family, values, message = CONFIGS[name]
    folder = shutil.copytree(folders / family, tmp_path / "folder")
    change(folder, "config.json", **values)
    assert message in refused(capsys, tmp_path / "run", f"--from={folder}")


OBJECT = b'{"model_type": "gpt2", '
FILES = {
    "nested": (b'{"a": ' * 5000 + b"1" + b"}" * 5000, "nested deeper than 100 levels"),
    "nested within the limit of Python": (OBJECT + b'"a": ' + b"[" * 300 + b"]" * 300 + b"}", "deeper than 100 levels"),
    "a key twice": (OBJECT + b'"n_layer": 1, "n_layer": 2}', "the key 'n_layer' is there twice"),
    "a large file": (OBJECT + b" " * (65 << 20) + b'"a": 1}', "more than 64 MiB"),
    "invalid UTF-8": (OBJECT + b'"a": "\xff"}', "expected JSON"),
    "a list": (b"[1]", "expected a JSON object, got 'list'"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("file", ["config.json", "model.safetensors.index.json"])
def test_json_is_bounded(name, file, folders, tmp_path, capsys):
    folder = shutil.copytree(folders / "gpt2", tmp_path / "folder")
    content, message = FILES[name]
    (folder / file).write_bytes(content)
    error = refused(capsys, tmp_path / "run", f"--from={folder}")
    assert message in error and file in error


@pytest.mark.parametrize(
    "files", [None, [], "x", {"a": 3}, {"a": "../x"}, {"a": ".."}, {"a": ""}, {"a": "config.json"}]
)
def test_an_index_of_another_kind_is_a_line(files, folders, tmp_path, capsys):
    folder = shutil.copytree(folders / "gpt2", tmp_path / "folder")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assert "expected" in refused(capsys, tmp_path / "run", f"--from={folder}")


def entry(kind: str = "F32", shape: tuple[int, ...] = (4,), offsets: tuple[int, int] = (0, 16)) -> dict:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


HEADERS = {
    "overlapping": ({"a": entry(), "b": entry()}, None),
    "beyond the file": ({"a": entry(shape=(400,), offsets=(0, 1600))}, None),
    "negative": ({"a": entry(offsets=(-1, 15))}, None),
    "more numbers than memory": ({"a": entry(shape=(2**62, 4))}, None),
    "unknown dtype": ({"a": entry("F33")}, None),
    "no object": ([], None),
    "length 2^63": ({"a": entry()}, 2**63),
    "length beyond the file": ({"a": entry()}, 2**20),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_damaged_header_of_safetensors_is_a_line(name, folders, tmp_path, capsys):
    folder = shutil.copytree(folders / "gpt2", tmp_path / "folder")
    header, length = HEADERS[name]
    text = json.dumps(header).encode()
    size = struct.pack("<Q", len(text) if length is None else length)
    (folder / "model.safetensors").write_bytes(size + text + bytes(16))
    error = refused(capsys, tmp_path / "run", f"--from={folder}")
    assert "expected an undamaged safetensors file" in error


ADAPTERS = {
    "alpha 0": ({"lora_alpha": 0}, "lora_alpha: expected a number above 0, got 0.0"),
    "rank 0": ({"r": 0}, "r: expected at least 1, got 0"),
    "rank -1": ({"r": -1}, "r: expected at least 1, got -1"),
    "a billion ranks": ({"r": 10**9}, "lora_A.weight of [1000000000, 8], for this model, got [4, 8]"),
    "rank of a pattern": ({"rank_pattern": {"c_attn": 0}}, "rank_pattern.c_attn: expected at least 1, got 0"),
    "alpha of a pattern": ({"alpha_pattern": {"c_attn": "x"}}, "alpha_pattern.c_attn: expected a value like"),
    "invalid pattern": ({"rank_pattern": {"((": 2}}, "rank_pattern: expected regular expressions, got '(('"),
    "pattern without an end": ({"alpha_pattern": {"(([a-z_.0-9]+)+)+X": 2}}, "without repeated groups"),
    "many repetitions": ({"alpha_pattern": {".*.*.*.*.*X": 2}}, "at most 3 repetitions"),
    "patterns of another kind": ({"rank_pattern": [1]}, "rank_pattern: expected a value like {}"),
    "modules of another kind": ({"target_modules": 5}, "target_modules: expected a list of names, or a pattern, got 5"),
    "a module that is a number": ({"modules_to_save": [1]}, "modules_to_save: expected a list of names, got [1]"),
    "kind is a list": ({"peft_type": ["LORA"]}, "peft_type: expected one of"),
    "task is a list": ({"task_type": ["CAUSAL_LM"]}, "task_type: expected a text, or null"),
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_options_of_adapters_are_a_line(name, folders, adapters, tmp_path, capsys):
    values, message = ADAPTERS[name]
    folder = shutil.copytree(adapters / "LoRA", tmp_path / "adapter")
    change(folder, "adapter_config.json", **values)
    error = refused(capsys, tmp_path / "run", f"--from={folder}", f"--base={folders / 'gpt2'}")
    assert message in error and "adapter" in error


ODD = [[], [1], ["a"], {}, {"a": 1}, None, "x", True, 0, -1, 1.5, float("nan"), float("inf"), 10**9, 10**400, [[1]]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("family", MODELS)
def test_every_key_with_every_kind_of_value(family, folders, tmp_path):
    """A value that is read and does not fit is an error of one line that names config.json or a tensor."""
    folder = shutil.copytree(folders / family, tmp_path / "folder")
    known = (folder / "config.json").read_text()
    keys = [(key,) for key in json.loads(known)]
    keys += [(key, name) for key, value in json.loads(known).items() if isinstance(value, dict) for name in value]
    refusals = 0
    for *outer, last in keys:
        for value in ODD:
            values = json.loads(known)
            (values[outer[0]] if outer else values)[last] = value
            (folder / "config.json").write_text(json.dumps(values))
            try:
                huggingface.load(folder)
            except UserError as error:
                refusals += 1
                assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000
                assert "values that a" not in str(error), (last, value)  # the line has the key
    assert refusals > len(keys) * len(ODD) / 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LoRA", "IA3", "Prompt", "Prefix"])
def test_every_option_with_every_kind_of_value(kind, folders, adapters, tmp_path):
    folder = shutil.copytree(adapters / kind, tmp_path / "adapter")
    model, base = huggingface.load(folders / "gpt2")
    params = flat_paths(base["params"])
    known = json.loads((folder / "adapter_config.json").read_text())
    for key in (*known, "modules_to_save", "bias", "init_lora_weights", "exclude_modules", "other"):
        for value in ODD:
            (folder / "adapter_config.json").write_text(json.dumps(known | {key: value}))
            try:
                peft.load(folder, model, params, "gpt2")
            except UserError as error:
                assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000
