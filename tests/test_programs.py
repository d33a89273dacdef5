"""The cache of compiled programs that the tests themselves use."""

import os

import jax
import numpy as np
import pytest
from jax._src import compilation_cache

from helpers import program_cache, tiers


@pytest.fixture
def cache(tmp_path):
    """An empty cache for this process."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    compilation_cache.reset_cache()
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


def test_a_program_is_kept_and_a_damaged_one_is_compiled_again(cache):
    x = np.arange(3.0, dtype=np.float32)
    for damage in (lambda whole: whole, lambda whole: whole[: len(whole) // 2], lambda whole: b"nothing of the kind"):
        np.testing.assert_array_equal(jax.jit(lambda x: 3 * x + 1)(x), [1, 4, 7])
        (program,) = cache.glob("*-cache")
        program.write_bytes(damage(program.read_bytes()))
    np.testing.assert_array_equal(jax.jit(lambda x: 3 * x + 1)(x), [1, 4, 7])


def test_the_oldest_go_where_there_are_too_many(tmp_path):
    for age in (3, 1, 2):
        path = tmp_path / "versions" / f"{age}-cache"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    program_cache.prune(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.rglob("*-cache")) == ["1-cache", "2-cache"]
    program_cache.prune(tmp_path / "none", 0)


def test_this_session_has_one_device_and_keeps_its_programs():
    assert jax.device_count() == 1 and jax.config.jax_compilation_cache_dir == str(program_cache.folder())
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(program_cache.folder())


def test_tiers_are_those_that_the_expression_names():
    assert tiers.named("") == tiers.named("not slow") == set()
    assert tiers.named("slow and mesh") == tiers.named("(mesh)and slow") == {"slow", "mesh"}
    assert tiers.named("slow and not mesh") == {"slow"} and tiers.named("score or nothing") == {"score"}


@pytest.mark.mesh
def test_a_session_of_eight_devices_keeps_none():
    assert jax.device_count() == 8 and not jax.config.jax_compilation_cache_dir
