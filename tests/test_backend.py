"""The backend: compiler options, programs that run once, products that XLA computes by libraries."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import backend
from txjax.__main__ import main
from txjax.nn.kernels.mask import Mask
from txjax.nn.kernels.reference_attention import reference_attention


def test_options_are_those_of_the_environment(monkeypatch, tmp_path):
    assert backend.compiler_options() == {}
    monkeypatch.setenv("TXJAX_COMPILER_OPTIONS", "xla_cpu_enable_fast_math=true,xla_backend_optimization_level=1")
    assert backend.compiler_options() == {"xla_cpu_enable_fast_math": True, "xla_backend_optimization_level": "1"}
    assert any("xla_cpu_enable_fast_math" in note for note in backend.prepare(tmp_path))
    np.testing.assert_allclose(backend.jit(jnp.tanh)(jnp.ones(3)), np.tanh(np.ones(3)), rtol=1e-6)
    with backend.target_platform("tpu"):
        assert backend.compiler_options() == {}


@pytest.mark.parametrize(("platform", "most"), [("cpu", 12), ("gpu", 24), ("tpu", 1)])
def test_layers_are_a_loop_beyond_a_depth(platform, most):
    with backend.target_platform(platform):
        assert backend.unroll(most, False) == most and backend.unroll(most + 1, False) == 1
        assert backend.unroll(most, True) == (1 if platform == "cpu" else most)


def test_default_compilation_cache(monkeypatch, tmp_path):
    updates = {}
    monkeypatch.setattr(jax.config, "update", updates.__setitem__)
    assert not any("compiled programs" in note for note in backend.prepare(tmp_path)) and not updates
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    assert any(f"compiled programs are kept in {tmp_path} " in note for note in backend.prepare(tmp_path))
    assert updates["jax_compilation_cache_dir"] == str(tmp_path)


@pytest.mark.parametrize("text", ["xla_cpu_of_another_year=true", "xla_cpu_enable_fast_math", "=1"])
def test_invalid_compiler_options_are_one_line(monkeypatch, config, tmp_path, capsys, text):
    monkeypatch.setenv("TXJAX_COMPILER_OPTIONS", text)
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("txjax: TXJAX_COMPILER_OPTIONS: expected ") and text.partition("=")[0] in line
    assert not (tmp_path / "run").exists()


PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
ARRAYS = """
import ctypes
from pathlib import Path
import numpy as np
from txjax import cpu

def large():  # bytes of the heap
    maps = Path("/proc/self/smaps").read_text().split("[heap]")[1:]
    return sum(int(heap.split("AnonHugePages:")[1].split()[0]) for heap in maps) << 10

assert cpu.keep_freed_memory()
for _ in range(2):
    array = np.ones(2**25)
    assert large() > 0.9 * array.nbytes, large()
    array = None
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # as some libraries do
"""


@pytest.mark.skipif(not PAGES.exists() or "[never]" in PAGES.read_text(), reason="this kernel has no large pages")
def test_memory_of_a_cpu_is_in_large_pages():
    ended = subprocess.run([sys.executable, "-c", ARRAYS], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


THREADS = """
import ctypes, sys, threading
from txjax import cpu

ended = threading.Event()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=lambda: (ctypes.CDLL("libc.so.6").malloc(10**5), ended.wait())).start()
print(cpu.keep_freed_memory())
ended.set()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
@pytest.mark.parametrize(
    "threads, variables, note",
    [
        ("0", {}, "freed memory is kept"),
        ("2", {}, "freed memory is returned at each step"),  # as in a notebook
        ("2", {"MALLOC_ARENA_MAX": "1"}, "freed memory is kept"),
        ("2", {"TXJAX_KEEP_MEMORY": "0"}, ""),
    ],
)
def test_threads_that_were_there_before_have_memory_of_their_own(threads, variables, note):
    command = [sys.executable, "-c", THREADS, threads]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", env=os.environ | variables)
    assert ended.returncode == 0 and ended.stdout.startswith(note or "\n"), ended


def test_few_and_many_numbers_are_drawn_alike():
    def draw(key):
        return jax.random.normal(key, (256, 3))

    few, many = (backend.jit_once(draw, numbers)(jax.random.key(1)) for numbers in (1, 10**9))
    np.testing.assert_allclose(few, many, rtol=0, atol=5e-7)  # fused additions round once instead of twice


def test_no_product_of_masked_attention_falls_to_reference_loops(capfd):
    """oneDNN has no fast kernel for some products that XLA fuses with a sum over rows (JAX 0.12); it says so itself."""
    rng = np.random.default_rng(0)
    query, key, value = (jnp.asarray(rng.normal(size=(8, 128, 3, 32)), jnp.float32) for _ in range(3))

    def loss(query, key, value):
        return reference_attention(query, key, value, Mask(causal=True)).sum()

    compiled = backend.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(query, key, value).compile()
    jax.block_until_ready(compiled(query, key, value))
    assert "reference implementation" not in capfd.readouterr().err
    assert "onednn" not in compiled.as_text()
