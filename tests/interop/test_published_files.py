"""Files with the names of published checkpoints are read as the reference reads them."""

import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from published_files import CHECKPOINTS, Published
from safetensors.numpy import load_file, save_file

from txjax.interop import huggingface
from txjax.interop.huggingface import weights
from txjax.interop.huggingface.catalog import FAMILIES
from txjax.types import UserError

from selection import describe_architecture, per_family

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")
parity = pytest.importorskip("test_parity")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
    pytest.mark.claim("Transfer", "files with the names of published checkpoints (needs torch and transformers)"),
]


def publish(model: Any, published: Published, folder: Path) -> None:
    """Writes a model as the files of a published checkpoint are."""
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
    tensors, state = load_file(path), model.state_dict()
    for old, new in published.renamed.items():
        tensors = {re.sub(old, new, name): x for name, x in tensors.items()}
    tensors = {name: x for name, x in tensors.items() if not re.search(published.absent, name)}
    for pattern, shape in published.extra.items():
        whole = pattern.endswith(("position_ids", "index"))
        for name in sorted({pattern.format(i) for i in range(published.layers)}):
            assert name not in tensors
            filled = np.full(shape, 0.25, np.float32) if name not in state else state[name].numpy()
            assert filled.shape == shape
            tensors[name] = np.zeros(shape, np.int64) if whole else filled
    save_file(tensors, path, metadata={"format": "pt"})
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | published.config))


def test_every_family_of_the_cases_has_a_published_checkpoint():
    """Families whose parity has a file of its own have their published names there."""
    types = {parity.CASES[published.case].config.model_type for published in CHECKPOINTS.values()}
    assert types == {case.config.model_type for case in parity.CASES.values()} <= {f.model_type for f in FAMILIES}


@per_family(
    "published",
    lambda published: describe_architecture(parity.CASES[published.case].architecture),
    seconds=1.5,
    cover=False,
    budget=12,
)
@pytest.mark.parametrize("published", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_outputs_agree(published: Published, tmp_path, caplog) -> None:
    case = parity.CASES[published.case]
    model = parity.random(case)
    publish(model, published, tmp_path)
    ours, variables = huggingface.load(tmp_path)
    lines = [line for line in caplog.messages if "left out" in line]
    if published.left_out is None:
        assert not lines
    else:
        modules, count = published.left_out
        assert lines == [f"left out {count} tensors that the class in config.json doesn't read: {modules}"]
    if not published.compared:
        return
    if published.reads:
        model = getattr(transformers, case.architecture).from_pretrained(tmp_path).eval()
    call = jax.jit(lambda weights, inputs: huggingface.forward(ours, weights, inputs | case.settings))
    parity.same(call(variables, case.inputs), parity.reference(model, case), case)


@pytest.mark.parametrize("architectures", [["GPT2LMHeadModel"], None])
def test_the_command_that_an_error_names_converts_pickles(architectures, tmp_path) -> None:
    model = transformers.GPT2LMHeadModel(parity.gpt2())
    model.config.architectures = architectures
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="to convert them") as caught:
        huggingface.load(tmp_path)
    exec(str(caught.value).partition('python -c "')[2].removesuffix('"'))
    table = huggingface.load(tmp_path)[1]["params"]["embed"]["embedding"]
    np.testing.assert_array_equal(table, model.transformer.wte.weight.detach().numpy())


def test_the_command_that_an_error_names_converts_the_pickles_of_an_adapter(tmp_path) -> None:
    tensors = {"base_model.model.lora_A.weight": torch.ones(2, 3)}
    torch.save(tensors, tmp_path / "adapter_model.bin")
    with pytest.raises(UserError, match="to convert them") as caught:
        weights.read(tmp_path, "adapter_model.safetensors")
    exec(str(caught.value).partition('python -c "')[2].removesuffix('"'))
    (tensor,) = weights.read(tmp_path, "adapter_model.safetensors").values()
    np.testing.assert_array_equal(tensor.read(), np.ones((2, 3)))
