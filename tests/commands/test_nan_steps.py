"""A saved step with NaN, which no run saves but a file can have: one line with the array, and nothing made of it."""

import shutil

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.checkpoint.stored_weights import stored_weights
from txjax.interop import huggingface
from txjax.interop.peft import peft
from txjax.models.text.decoder import gpt
from txjax.nn.adapters import LoRA
from txjax.types import flat_paths

from helpers.arrays import variables
from helpers.published_tokenizers import llama

TOKENS = np.zeros((1, 4), np.int32)
BAD = "layers/block/mlp/up/kernel"
COMMANDS = {
    "export": "export --workdir=RUN --to=OUT",
    "quantize": "quantize --workdir=RUN --to=OUT",
    "average": "average --workdir=RUN --to=OUT --last=2",
    "merge": "merge --workdir=TUNED --to=OUT",
    "an adapter on it": "import --from=ADAPTER --base=RUN --workdir=OUT",
    "generate": "generate --workdir=RUN --prompt=a --length=2",
    "an adapter": "generate --workdir=TUNED --prompt=a --length=2",
    "evaluate": "evaluate --workdir=RUN",
}


def spoil(run, number: float) -> None:
    """Saves the last step of a run again, with right digests, and one number of it replaced."""
    store = Store(run)
    step = store.steps()[-1]
    weights = stored_weights(store, step)
    part = next(part for part in ("params", "frozen") if BAD in flat_paths(weights[part]))
    block = weights[part]["layers"]["block"]["mlp"]["up"]
    block["kernel"] = block["kernel"].at[0, 0, 0].set(number)
    store.save_parts(step + 1, {"weights": weights}, {"metrics": {}})
    store.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`run`, an imported model, and `tuned`, the same with an adapter; both with a last step that is not finite."""
    at = tmp_path_factory.mktemp("runs")
    model = gpt(vocab=400, width=8, depth=1, heads=2, max_length=16)
    base = variables(model, TOKENS)
    huggingface.save(model, base, at / "published")
    llama(at / "published")
    tuned = model.clone(adapter=LoRA(rank=2))
    peft.save(tuned, flat_paths(variables(tuned, TOKENS)["params"]) | flat_paths(base["params"]), at / "adapter")
    assert main(["import", f"--from={at / 'published'}", f"--workdir={at / 'run'}"]) == 0
    words = ("import", f"--from={at / 'adapter'}", f"--base={at / 'published'}", f"--workdir={at / 'tuned'}")
    assert main(list(words)) == 0
    spoil(at / "run", np.nan)
    spoil(at / "tuned", np.inf)
    return at


@pytest.mark.parametrize("name", COMMANDS)
def test_a_step_that_is_not_finite_is_refused_by_name(name, folder, tmp_path, capsys):
    known = {"RUN": "run", "TUNED": "tuned", "ADAPTER": "adapter"}
    words = COMMANDS[name].split()
    for i, word in enumerate(words):
        flag, equals, value = word.rpartition("=")
        place = folder / known[value] if value in known else tmp_path / "out" if value == "OUT" else value
        words[i] = f"{flag}{equals}{place}"
    capsys.readouterr()
    assert main(words) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert f"step 1 of {folder}" in error and f"{BAD}, got 'NaN or infinity'" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_does_not_start_from_it_nor_stand_beside_it(straight_run, tmp_path, config, capsys):
    run = shutil.copytree(straight_run, tmp_path / "run")
    shutil.rmtree(run / "checkpoints" / "10", ignore_errors=True)
    spoil(run, np.nan)
    words = ("train", f"--config={config}", f"--workdir={tmp_path / 'new'}", f"--config.init_from={run}")
    assert main(list(words)) == 2
    assert f"finite numbers in weights/params/{BAD}, got 'NaN or infinity'" in capsys.readouterr().err.splitlines()[-1]
    words = ("generate", f"--workdir={straight_run}", "--length=2", "--prompt=a", "--adapters", str(run))
    assert main(list(words)) == 2
    assert f"finite numbers in params/{BAD}, got 'NaN or infinity'" in capsys.readouterr().err.splitlines()[-1]
