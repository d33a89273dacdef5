"""Lower bounds of the bytes a device sends, against the published formulas of each kind of parallelism."""

import pytest

from txjax import config
from txjax.plan.figures import figures
from txjax.plan.minimum import between_slices, least
from txjax.plan.program import laid_out
from txjax.plan.target import fake

pytestmark = pytest.mark.mesh

WIDTH, HEADS, DEPTH, BATCH, LENGTH, FLOAT = 96, 3, 4, 8, 128, 4  # of the two configs
STREAM = BATCH * LENGTH * WIDTH * FLOAT


def least_of(name: str, **mesh: int) -> tuple[dict[str, int], int]:
    """What one of eight devices sends, and how many bytes of parameters the model has."""
    flags = [f"--config.mesh.{axis}={size}" for axis, size in ({"data": 1} | mesh).items()]
    experiment = config.load(f"configs/text/{name}.py", flags)
    with laid_out(experiment, fake(8, "H100")) as layout:
        return least(experiment, layout), layout.parameters * FLOAT


def test_data_parallel_gradients():
    sent, parameters = least_of("gpt_tiny", data=8)
    assert sent["add up gradients of copies"] == round(2 * parameters * 7 / 8) == sum(sent.values())


def test_models_inside_a_model_choose_the_dtype():
    parts = ["--config.model.generator.dtype=bfloat16", "--config.model.discriminator.dtype=bfloat16"]
    experiment = config.load("configs/text/electra_tiny.py", [*parts, "--config.mesh.data=8"])
    with laid_out(experiment, fake(8, "H100")) as layout:
        assert sum(least(experiment, layout).values()) == pytest.approx(2 * layout.parameters * 2 * 7 / 8, abs=1)


def test_context_parallel_keys_and_values():
    sent, parameters = least_of("gpt_tiny", sequence=8)
    assert sent["keys and values"] == round(2 * DEPTH * 2 * STREAM * 7 / 8)
    assert sent["add up gradients of copies"] == round(2 * parameters * 7 / 8)
    assert sum(sent.values()) == sent["keys and values"] + sent["add up gradients of copies"]


def test_expert_parallel_tokens():
    sent, parameters = least_of("moe_tiny", expert=8)
    assert sent["tokens to experts"] == round(4 * DEPTH * 2 * STREAM / 8 * 7 / 8)
    experts = DEPTH * 8 * (2 * WIDTH * 2 * WIDTH + 3 * WIDTH) * FLOAT  # at home: neither gathered nor added up
    assert sent["add up gradients of copies"] == round(2 * (parameters - experts) * 7 / 8)
    assert sent["gather parameters"] == 0


def test_pipeline_stages():
    sent, parameters = least_of("gpt_tiny", pipeline=4, fsdp=2)
    assert sent["pass on to the next stage"] == 2 * STREAM / 2
    outside = 256 * WIDTH * FLOAT + WIDTH * FLOAT  # the embedding and the last norm are on every stage
    assert sent["gather parameters"] < 2 * (parameters - outside) / 4 + 2 * outside
    assert sent["gather parameters"] > 0.9 * (2 * (parameters - outside) / 4 + 2 * outside) / 2


def test_gradients_between_slices():
    experiment = config.load("configs/text/gpt_tiny.py", ["--config.mesh.data=4", "--config.mesh.fsdp=2"])
    with laid_out(experiment, fake(8, "H100")) as layout:
        assert between_slices(experiment, layout, 1) == 0
        crossed = between_slices(experiment, layout, 2)
        # Two slices of two copies of two shards: a device holds a quarter of a slice's gradient, and sends it once.
        assert crossed == pytest.approx(layout.parameters * FLOAT / 4, rel=0.02)  # few vectors are not split


def test_arrays_in_host_memory_use_no_device_memory():
    kept = {}
    for remat in ("full", "offload"):
        experiment = config.load("configs/text/gpt_tiny.py", [f"--config.model.stack.remat={remat}"])
        kept[remat] = figures(experiment, "tpu").kept
    assert kept["offload"] < kept["full"]  # which keeps each block's input on the device
