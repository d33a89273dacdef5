"""Parameters that come from another run: the right ones, at the right paths, and user errors before a compile."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from txjax import sharding, tree
from txjax.__main__ import main
from txjax.checkpoint import Checkpoints, Store, split
from txjax.data import Images
from txjax.experiment import Experiment
from txjax.models.vision.mae.mae import MAE
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken, Learned
from txjax.objectives import Classification, MaskedPatch
from txjax.optim import AdamW, Constant, Group
from txjax.sharding import Mesh
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import build_layout
from txjax.train.state.subtrees import merge
from txjax.transfer import Bicubic, Every, From
from txjax.types import UserError, flat_paths

from helpers.arrays import fill

DATA = Images(name="txjax_digits", split="train", shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
SIZES = dict(width=16, depth=2, heads=2)
DECODER = dict(decoder_width=8, decoder_depth=1, decoder_heads=2)


def pretraining(**fields) -> Experiment:
    model = MAE(patch=2, positions=Learned(max_length=17), **SIZES, **DECODER)
    frozen = (Group("pool/token", trainable=False), Group("(?!pool/token).*"))
    return Experiment(
        **dict(
            model=model,
            objective=MaskedPatch(rate=0.5),
            data=DATA,
            optimizer=AdamW(schedule=Constant(), groups=frozen),
            checkpoint=Checkpoints(best="eval/test/loss", keep=3),
            batch_size=8,
        )
        | fields
    )


def tuning(workdir: Path | str, patch: int = 2, **fields) -> Experiment:
    model = ViT(
        patch=patch, head=Classes(10, FirstToken()), positions=Learned(max_length=(8 // patch) ** 2 + 1), **SIZES
    )
    defaults = dict(model=model, objective=Classification(), data=DATA, init_from=str(workdir), batch_size=8, seed=5)
    return Experiment(**defaults | fields)


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The workdir of a pretraining run on 8-way data parallelism: steps 10 (the best) and 30."""
    workdir = tmp_path_factory.mktemp("pretrained") / "run@home"
    experiment = pretraining()
    store = Store(workdir, experiment.checkpoint)
    with sharding.use_mesh(experiment.mesh) as built:
        abstract = build_layout(experiment, built).abstract
        for step, loss in ((10, 1.0), (30, 2.0)):
            store.save(step, fill(abstract, step), {"metrics": {"eval/test/loss": loss}})
        store.wait()
    (workdir / "config.json").write_text(json.dumps(tree.to_json(experiment)))
    return workdir


def init_source(experiment: Experiment):
    with sharding.use_mesh(experiment.mesh) as built:
        return find_init_source(experiment, build_layout(experiment, built))


def fates(experiment: Experiment) -> dict[str, str]:
    return {row.path: row.action for row in init_source(experiment).rows}


def saved(workdir: Path, step: int) -> dict[str, np.ndarray]:
    """The parameters of a step as they were saved, by `fill`."""
    experiment = pretraining()
    with sharding.use_mesh(experiment.mesh) as built:
        state = fill(build_layout(experiment, built).abstract, step)
    return {path: np.asarray(x) for path, x in flat_paths(merge(state.params, state.frozen)).items()}


@pytest.mark.mesh
def test_a_classifier_starts_from_a_masked_autoencoder_on_another_mesh(source, tmp_path, capsys):
    copy = shutil.copytree(source, tmp_path / "copy")
    origin = From(str(copy), omit=("patch_embed",), resize=(Bicubic(),))
    exp = tuning(copy, patch=1, mesh=Mesh(data=1, fsdp=8), init_from=origin)
    with sharding.use_mesh(exp.mesh) as built:
        layout = build_layout(exp, built)
        found = find_init_source(exp, layout)
        shutil.rmtree(copy / "checkpoints" / "30" / "arrays" / "training")  # moments are never read
        state, fresh = found.begin(exp, layout), layout.create(exp.seed)
    expected, params, drawn = saved(source, 30), flat_paths(state.params), flat_paths(fresh.params)
    for path, place in flat_paths(layout.abstract.params).items():
        assert params[path].sharding.is_equivalent_to(place.sharding, place.ndim), path
        if path.startswith(("patch_embed", "head")):
            np.testing.assert_array_equal(params[path], drawn[path], err_msg=path)
        elif path.startswith("positions"):
            np.testing.assert_allclose(params[path], Bicubic()(expected[path], 65), atol=1e-5)
        else:
            np.testing.assert_array_equal(params[path], expected[path], err_msg=path)
    for path, x in flat_paths((state.opt_state, state.step, state.skipped)).items():
        np.testing.assert_array_equal(x, 0, err_msg=path)

    found.show(tmp_path)
    out = " ".join(capsys.readouterr().out.split())
    for words in ("at step 30", "resized from [17, 16]", "head/kernel", "[16, 10]", "new", "decoder/embed/kernel"):
        assert words in out, out
    written = json.loads((tmp_path / "transfer.json").read_text())
    assert written["origins"][0]["step"] == 30 and written["numbers"]["new"] == 1 * 16 + 16 + 16 * 10 + 10
    assert sum(written["numbers"][action] for action in ("loaded", "resized", "new")) == layout.parameters
    dropped = [row["path"] for row in written["arrays"] if row["action"] == "dropped"]
    assert dropped and all(path.startswith(("decoder/", "patch_embed/")) for path in dropped)


@pytest.mark.parametrize(("which", "step"), [("", 30), ("@last", 30), ("@best", 10), ("@30", 30)])
def test_a_step_by_name(source, which, step):
    assert init_source(tuning(f"{source}{which}")).steps[0].at.step == step


def test_what_was_frozen_there_is_trained_here(source):
    assert fates(tuning(source))["pool/token"] == "loaded"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(which="@11"), ["config.init_from: expected last, best", "[10, 30]", "11"]),
        (dict(which="@bset"), ["WORKDIR@best or WORKDIR@STEP", "@bset"]),
        (dict(patch=4), ["patch_embed/kernel", "[16, 16]", "[4, 16]", "omit=('patch_embed',)"]),
        (
            dict(patch=1, omit=("patch_embed",)),
            ["positions/table/embedding to be float32[65, 16]", "float32[17, 16] in", "resize=Bicubic"],
        ),
        (dict(omit=("hed",)), ["config.init_from.omit[0]", "did you mean head"]),
        (dict(there="decoder"), ["layers/block", "to be float32[2, ", "[1, "]),
    ],
    ids=lambda v: str(list(v.values())[-1])[:30] if isinstance(v, dict) else "",
)
def test_user_errors_come_before_anything_compiles(source, change, words, monkeypatch):
    change = {"which": "", "patch": 2} | change
    which, patch = change.pop("which"), change.pop("patch")
    experiment = tuning(source, patch, init_from=From(f"{source}{which}", **change))
    with sharding.use_mesh(experiment.mesh) as built, pytest.raises(UserError) as error:
        layout = build_layout(experiment, built)
        monkeypatch.setattr(jax, "jit", None)
        find_init_source(experiment, layout)
    for word in words:
        assert word in str(error.value)


def test_a_damaged_step(source, tmp_path):
    copy = shutil.copytree(source, tmp_path / "copy")
    largest = max((copy / "checkpoints" / "30").rglob("*"), key=lambda p: p.stat().st_size if p.is_file() else 0)
    largest.write_bytes(largest.read_bytes()[:-1])
    assert init_source(tuning(copy)).steps[0].at.step == 10  # the newest good one
    with pytest.raises(UserError, match="undamaged files"):
        init_source(tuning(f"{copy}@30"))


def test_a_checkpoint_of_weights_starts_a_run_and_resumes_none(tmp_path, capsys):
    """Such as an import from elsewhere leaves: any config.json, and a checkpoint without moments."""
    experiment = pretraining()
    with sharding.use_mesh(experiment.mesh) as built:
        layout = build_layout(experiment, built)
        weights = {"weights": split(fill(layout.abstract, 0))["weights"]}
        store = Store(tmp_path)
        store.save_parts(0, weights, {})
        store.wait()
        (tmp_path / "config.json").write_text(json.dumps({"model": tree.to_json(experiment.model)}))
        with pytest.raises(UserError, match=f"only weights .*--config.init_from={tmp_path}"):
            store.restore(layout.abstract)
    found = fates(tuning(tmp_path))
    assert found["norm_final/scale"] == "loaded" and found["head/kernel"] == "new"
    assert main(["evaluate", f"--workdir={tmp_path}"]) == 2
    assert f"a model alone in {tmp_path}'; start a run with --config.init_from" in capsys.readouterr().err
    assert main(["checkpoint", "verify", f"--workdir={tmp_path}"]) == 0 and "good" in capsys.readouterr().out


def test_the_origins_are_part_of_the_config():
    parts = From("a", here="enc", omit=("enc/x",), resize=(Bicubic(prefix=0), Every(2))), From("b@best")
    back = tree.from_json(json.loads(json.dumps(tree.to_json(tuning("somewhere", init_from=parts)))))
    assert back.init_from == parts
