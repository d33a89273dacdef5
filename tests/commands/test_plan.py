"""`txjax plan`: on fake devices of a CPU, and for TPU slices and GPUs if their compilers are installed."""

import html
import importlib.util
import json
import os
import re
import subprocess
import sys

import jax
import pytest

from helpers import runs

KEYS = {
    "params", "flops_per_step", "bytes_per_device", "device_memory", "fits", "collective_bytes_per_step",
    "collective_bytes_minimum", "step_seconds", "mfu", "compile_seconds",
}  # fmt: skip
WIDTH, LENGTH, BATCH, VOCAB = 16, 16, 8, 256  # of runs.CONFIG
needs_cuda = pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None, reason="pip install '.[plan-gpu]'"
)
needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="pip install '.[plan]'")


def plan(*flags: str) -> tuple[int, str, str]:
    """A process whose number of devices `--devices` sets, which a flag of XLA would do before it."""
    quick = runs.xla_flags(1).replace("--xla_force_host_platform_device_count=1", "")
    environment = os.environ | {"XLA_FLAGS": quick}
    words = [sys.executable, "-m", "txjax", "plan", *flags]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600)
    return done.returncode, done.stdout, done.stderr


def plan_here(*flags: str) -> tuple[int, str, str]:
    """Runs `txjax plan` in this process, whose devices, at least as many as it plans, JAX has started already."""
    update = jax.config.update
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.config, "update", lambda name, x: name == "jax_num_cpu_devices" or update(name, x))
        return runs.command("plan", *flags)


@pytest.fixture(scope="module")
def sharded(config, tmp_path_factory):
    """A plan for eight-way FSDP, and its page."""
    page = tmp_path_factory.mktemp("plan") / "plan.html"
    mesh = ("--config.mesh.data=1", "--config.mesh.fsdp=-1")
    code, out, err = plan(f"--config={config}", "--devices=8", *mesh, f"--html={page}", "--price=2", "--json")
    assert code == 0, err
    return json.loads(out), page.read_text()


@pytest.mark.slow
def test_the_numbers_are_those_of_the_model(sharded):
    found, _ = sharded
    assert set(found) >= KEYS and found["fits"] and found["mesh"]["fsdp"] == 8
    embed, attention, mlp = VOCAB * WIDTH, 4 * WIDTH * WIDTH + 4 * WIDTH, 8 * WIDTH * WIDTH + 5 * WIDTH
    parts = {name: part["trainable"] for name, part in found["params_parts"].items()}
    assert parts["embed"] == embed and parts["attention"] == attention and parts["mlp"] == mlp
    assert found["params"] == sum(parts.values()) and found["flops_6nd"] == 6 * found["params"] * BATCH * LENGTH
    flops = found["flops_parts"]
    assert flops["mlp"] == 2 * BATCH * LENGTH * 8 * WIDTH * WIDTH and flops["head"] == 2 * BATCH * LENGTH * embed
    assert found["flops_per_step"] == 3 * sum(flops.values())
    assert found["bytes_parts"]["parameters"] == sum(row["bytes_per_device"] for row in found["layout"])
    assert found["bytes_parts"]["parameters"] < 4 * found["params"] / 7  # in float32; the bias of the keys is whole
    assert found["bytes_parts"]["moments"] == pytest.approx(2 * found["bytes_parts"]["parameters"], abs=64)
    assert found["bytes_per_device"] == sum(found["bytes_parts"].values())
    assert found["cost"] == pytest.approx(2 * found["device_hours"])
    assert found["step_seconds"] == max(found["step_parts"].values()) and 0 < found["mfu"] < 1


def test_the_least_exchange_of_fsdp_is_its_formula(sharded):
    """Kernels gathered twice and their gradients added up into shares once: 3 x 4 N x 7/8 bytes a device."""
    found, _ = sharded
    split = 8 * sum(row["bytes_per_device"] for row in found["layout"] if "fsdp" in row["partition"])
    whole = sum(row["bytes_per_device"] for row in found["layout"] if "fsdp" not in row["partition"])
    assert found["collective_bytes_minimum"] == pytest.approx((3 * split + 2 * whole) * 7 / 8, abs=8)
    assert found["collective_bytes_per_step"] > 0.5 * found["collective_bytes_minimum"]


def test_the_page_shows_every_parameter(sharded):
    found, page = sharded
    for row in found["layout"]:
        assert row["parameter"] in page
    assert "embed 16 → fsdp" in page and "http" not in page


def test_one_device_sends_nothing_and_tables_say_so(config, tmp_path):
    """The summary is the last table and the first of the page: verdict, time and cost of the run."""
    flags = ("--devices=1", "--chip=A100", "--price=1e6", "--config.num_steps=10000000", f"--html={tmp_path}/plan.html")
    code, out, err = plan_here(f"--config={config}", *flags)
    assert code == 0, err
    assert "all-gather" not in out
    rows = dict(re.findall(r"^ (.+?) +│ +(.*?) *$", out.partition("\nsummary\n")[2], re.MULTILINE))
    assert list(rows) == [
        "memory of a device", "a step at best", "10,000,000 steps at best", "MFU at best", "device-hours", "cost",
        "limits",
    ]  # fmt: skip
    memory = r"[\d.]+ KiB of 59.44 GiB \(75%, by XLA_PYTHON_CLIENT_MEM_FRACTION\), fits"
    assert re.fullmatch(memory, rows["memory of a device"])
    assert rows["limits"].startswith("the program is a CPU's: --topology=a100:1 compiles the GPU's")
    assert rows["a step at best"].endswith(" takes") and rows["10,000,000 steps at best"].endswith((" s", " min"))
    assert float(rows["cost"].replace(",", "")) == pytest.approx(1e6 * float(rows["device-hours"]), rel=0.01)
    page = (tmp_path / "plan.html").read_text()
    shown = dict(re.findall(r"<tr><td>(.*?)</td><td>([^<]*)</td></tr>", page))
    assert {name: html.unescape(text) for name, text in shown.items()} == rows
    assert page.index("<h2>Summary") < page.index("<h2>Memory")
    total = rows["memory of a device"].partition(" of ")[0]
    assert f"<tr><td>all</td><td>{total}</td>" in page


MISTAKES = {
    "no devices": ((), "--topology=v5p:4x4x4 or h100:8, or --devices=8"),
    "both": (("--devices=2", "--topology=v5e:2x2"), "--devices: expected nothing beside --topology"),
    "chip": (("--devices=1", "--chip=H10"), "did you mean H100"),
    "family": (("--topology=v7:2x2",), "--topology: expected FAMILY:AxB"),
    "mesh": (("--devices=1", "--config.mesh.fsdp=3"), "config.mesh"),
    "batch": (("--devices=3",), "config.batch_size: expected a multiple of"),
    "flag": (("--devices=2", "--serch"), "did you mean --search"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.mesh) if name == "batch" else name for name in MISTAKES]
)
def test_a_mistake_is_one_line(config, name):
    flags, said = MISTAKES[name]
    code, _, err = plan_here(f"--config={config}", *flags)
    assert code == 2 and said in err and len(err.strip().splitlines()) == 1


@pytest.mark.slow
@needs_libtpu
def test_a_plan_that_does_not_fit_is_refused_with_flags_that_fit(config):
    more = ("--config.model.width=8192", "--config.model.depth=4", "--config.model.heads=64", "--config.batch_size=32")
    code, out, err = plan(f"--config={config}", "--topology=v5e:2x4", *more, "--json")
    assert code == 2 and not json.loads(out)["fits"]
    assert "too much" in err and "--config.mesh.fsdp=-1" in err and "fits, with" in err
    assert len(err.strip().splitlines()) == 1, err


@pytest.mark.slow
@needs_libtpu
def test_a_search_lists_what_fits_best_first(config):
    code, out, err = plan(f"--config={config}", "--topology=v5e:2x2", "--search", "--compile=2", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [choice["aim"] for choice in found] == ["fastest"] * 2 + ["largest batch", "fewest microbatches"]
    assert all(choice["fits"] for choice in found)
    assert found[0]["step_seconds"] <= found[1]["step_seconds"]
    assert any(flag.startswith("--config.mesh.fsdp") for flag in found[0]["flags"])


@pytest.fixture(scope="module")
def on_gpus(config, tmp_path_factory):
    """A plan for two hosts of four H100, and its page."""
    page = tmp_path_factory.mktemp("plan") / "plan.html"
    mesh = ("--config.mesh.data=1", "--config.mesh.fsdp=-1")
    code, out, err = plan_here(f"--config={config}", "--topology=h100:2x4", *mesh, f"--html={page}", "--json")
    assert code == 0, err
    return json.loads(out), page.read_text()


@needs_cuda
@pytest.mark.slow
def test_a_step_is_compiled_for_gpus_and_its_time_estimated(on_gpus):
    found, page = on_gpus
    assert found["devices"] == 8 and found["chip"] == "NVIDIA H100 80GB HBM3" and found["mesh"]["fsdp"] == 8
    assert found["device_memory"] == pytest.approx(0.75 * 84_942_979_072)  # what JAX takes
    assert found["collective_parts"]["all-gather"] > 0.5 * found["collective_bytes_minimum"] / 2
    assert found["step_seconds"] == pytest.approx(sum(found["step_estimate"].values()))
    assert found["step_seconds"] > found["step_seconds_least"] == max(found["step_parts"].values())
    sent = found["collective_bytes_per_step"]
    assert sent / 200e9 <= found["step_parts"]["collectives"] * 1.001 < sent / 50e9  # four cards a host, not NVLink
    assert found["limits"] and all(limit.replace("'", "&#39;") in page for limit in found["limits"])
    assert "Estimated time of a step" in page


@needs_cuda
@pytest.mark.slow
def test_estimates_are_called_estimates(config):
    code, out, err = plan_here(f"--config={config}", "--topology=h100:1", "--config.num_steps=1000000")
    assert code == 0, err
    rows = re.findall(r"^ (.*?) +│ +(.*?) *$", out.partition("\nsummary\n")[2], re.MULTILINE)
    assert [name for name, _ in rows] == [
        "memory of a device", "a step, estimated", "a step at best", "1,000,000 steps, estimated", "MFU, estimated",
        "device-hours, estimated", "limits", "", "",
    ]  # fmt: skip
    assert "compiled, not run: times are estimates" in dict(rows)["limits"]


@needs_cuda
def test_what_the_compiler_for_gpus_ignores_is_refused(config):
    code, _, err = plan_here(f"--config={config}", "--topology=h100:1", "--config.mesh.moments=host")
    assert code == 2 and err.startswith("txjax: config.mesh.moments: expected device") and "got 'host'" in err


@needs_cuda
@pytest.mark.slow
def test_a_plan_that_does_not_fit_says_how_jax_takes_more(config, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "1e-6")
    code, out, err = plan_here(f"--config={config}", "--topology=h100:1", "--json")
    assert code == 2 and json.loads(out)["device_memory"] == 84_943
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION=0.92 lets JAX take more than 0% of a device's memory" in err


@needs_cuda
@pytest.mark.slow
def test_a_search_of_gpus_compiles_the_best(config):
    code, out, err = plan_here(f"--config={config}", "--topology=a100:4", "--search", "--compile=2")
    assert code == 0, err
    assert "2 that fit (compiled)" in out and "a step, estimated" in out and "limit: compiled, not run" in out
