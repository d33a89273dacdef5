"""Training with the length split over devices: the run is that of one device."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from txjax import sharding
from txjax.data import Bytes, Images, NextTokenWindows, TextWindows
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.vision.mae.mae import MAE
from txjax.nn import AllGatherKV, Attention, Learned, RingAttention
from txjax.objectives import MaskedPatch, MaskedToken, NextToken
from txjax.optim import SGD, Constant
from txjax.sharding import Mesh
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import batch_spec, build_layout
from txjax.train.step import jit_step

pytestmark = [
    pytest.mark.mesh,
    pytest.mark.claim("Attention kernels", "a decoder, BERT and MAE with a sharded length train as on one device"),
]

SIZES = dict(width=16, depth=1, heads=2)
RUNS = {
    "decoder": (Decoder(vocab=64, **SIZES), NextToken(), NextTokenWindows(name="txjax_python_text", length=16)),
    "bert": (
        Bert(vocab=257, positions=Learned(max_length=16), **SIZES),
        MaskedToken(mask_id=256, vocab=64),
        TextWindows(name="txjax_python_text", length=16, tokenizer=Bytes(specials=("[MASK]",))),
    ),
    "mae": (
        MAE(patch=2, decoder_width=16, decoder_depth=1, decoder_heads=2, **SIZES),
        MaskedPatch(rate=0.75),  # 4 of 16 patches, and a class token: lengths of 5 and 17, which 2 does not divide
        Images(name="txjax_digits", split="train", shape=(8, 8, 1), mean=(0.3,), std=(0.35,)),
    ),
}


def batch(exp: Experiment, seed: int) -> dict[str, np.ndarray]:
    draw, found = np.random.default_rng(seed), {}
    for key, x in (batch_spec(exp.data, exp.batch_size) | {"id": jax.ShapeDtypeStruct((4,), np.int32)}).items():
        whole = draw.integers(0, 64, x.shape) if x.dtype == np.int32 else draw.random(x.shape)
        found[key] = whole.astype(x.dtype)
    if "tokens" in found:
        found["segments"] = np.sort(draw.integers(0, 3, (4, 16)), 1)[:, ::-1].astype(np.int32)
        found["positions"] = np.tile(np.arange(16, dtype=np.int32), (4, 1))
    return found


def run(exp: Experiment, mesh: Mesh, devices: int) -> list[Any]:
    with sharding.use_mesh(mesh, jax.devices()[:devices]) as built:
        layout = build_layout(exp, built)
        state, step, rows = layout.create(0), jit_step(exp, layout), []
        for seed in range(3):
            state, metrics = step(state, shard_batch(batch(exp, seed), layout.batch))
            rows.append(jax.device_get(metrics))
    return rows


@pytest.mark.parametrize("name", ["decoder", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "mae"))])
def test_the_length_split_over_devices_changes_nothing(name: str) -> None:
    model, objective, data = RUNS[name]
    optimizer = SGD(peak_lr=0.1, clip=None, momentum=0.0, schedule=Constant())
    exp = Experiment(model=model, objective=objective, data=data, optimizer=optimizer, batch_size=4, num_steps=3)
    alone = run(exp, Mesh(), 1)
    for keys in (AllGatherKV(), RingAttention()) if name == "decoder" else (AllGatherKV(),):
        split = dataclasses.replace(exp, model=model.clone(mixer=Attention(context_parallel=keys)))
        for want, got in zip(alone, run(split, Mesh(data=2, sequence=2), 4), strict=True):
            for metric in ("loss", "grad_norm"):
                np.testing.assert_allclose(
                    got[metric], want[metric], rtol=1e-4, err_msg=metric
                )  # sums of devices come in any order
