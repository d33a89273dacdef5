"""Faults that tests must find: each is seeded in a copy of the repository, where the tests beside it must fail.

    python tests/seeded_faults.py [--tree=FOLDER] [WORD ...]    all, or those whose titles contain a word

It takes some 20 s a fault; without it the same tests must pass. CONTRIBUTING.md lists what it printed.
"""

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TURNS = 8  # of selection.py, which needs JAX
ROOT = Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True)
class Fault:
    """Some text of the package, found in one place, and what stands there instead; tests that find it.

    Attributes:
      tests: words for pytest: files or ids, and `-k` expressions.
      mesh: they need eight devices.
      one_family: it is in one family alone, so that it may be found in one of the eight turns of a change alone
        (selection.py). All others must be found in every turn.
    """

    title: str
    text: str
    instead: str
    tests: str
    mesh: bool = False
    one_family: bool = False


FAULTS = (
    Fault(
        "a causal mask sees one token ahead",
        "return keys <= queries",
        "return keys <= queries + 1",
        "tests/nn/test_mask.py",
    ),
    Fault("a window is one token too long", "near = keys > queries", "near = keys >= queries", "tests/nn/test_mask.py"),
    Fault(
        "packed documents see each other",
        "(keys[:, None, :] == queries[:, :, None])",
        "(keys[:, None, :] >= 0 * queries[:, :, None])",
        "tests/nn/test_mask.py tests/models/test_decoder.py -k 'mask or packed or segments'",
    ),
    Fault(
        "cached positions are off by one",
        'last("key_positions", first - 1) + 1 + indices',
        'last("key_positions", first - 1) + 2 + indices',
        "tests/models/test_decoder.py -k cached",
    ),
    Fault(
        "the warmup is one update too long",
        "peak_lr, warmup - 1), decay]",
        "peak_lr, warmup), decay]",
        "tests/optim/test_schedules.py",
    ),
    Fault(
        "norms and biases decay",
        '(kernel|embedding)$).*", weight_decay=0.0)',
        '(kernel|embedding)$).*", weight_decay=1.0)',
        "tests/optim/test_groups.py",
    ),
    Fault(
        "Adam has no momentum and no correction for its start",
        "return optax.scale_by_adam(",
        "return optax.scale_by_rms(self.b2)\n        return optax.scale_by_adam(",
        "tests/optim/test_optimizers.py -k adamw",
    ),
    Fault(
        "the average of the weights is taken before the update",
        "ema.update(state.ema, params,",
        "ema.update(state.ema, state.params,",
        "tests/train/test_average.py -k formula",
        mesh=True,
    ),
    Fault(
        "counts of microbatches are averaged, not added",
        "lambda x: x.sum(0), counts_by_part",
        "lambda x: x.mean(0), counts_by_part",
        "tests/train/test_step.py -k microbatches",
        mesh=True,
    ),
    Fault(
        "moments are not split over devices",
        "shapes[name].shape == leaf.shape:",
        "shapes[name].shape == leaf.shape and leaf.ndim < 2:",
        "tests/train/test_step.py -k every_mesh",
        mesh=True,
    ),
    Fault(
        "a step whose loss is not finite changes the parameters",
        "lambda new, old: jnp.where(good, new, old)",
        "lambda new, old: jnp.where(True, new, old)",
        "tests/train/test_step.py -k non_finite",
    ),
    Fault(
        "label smoothing with the sum of the logits for their mean",
        "(chosen - logits.mean(-1, dtype=jnp.float32))",
        "(chosen - logits.sum(-1, dtype=jnp.float32))",
        "tests/objectives/test_losses.py -k smoothing",
    ),
    Fault(
        "a masked autoencoder learns from visible patches",
        "jnp.ones(target.shape[:2]).at[",
        "jnp.zeros(target.shape[:2]).at[",
        "tests/objectives/test_objectives.py -k masked_patch",
    ),
    Fault(
        "an evaluation drops its last batch",
        "-(-count // batch_size)",
        "count // batch_size",
        "tests/data/test_loader.py -k evaluation",
    ),
    Fault(
        "a batch is left out on resume",
        "read, start_step, sys.maxsize",
        "read, start_step + (start_step > 0), sys.maxsize",
        "tests/data/test_loader.py -k start_at_any_step",
    ),
    Fault(
        "a row of the log is lost on resume",
        "    if kept != text:\n        replace_bytes",
        '    kept = kept[: kept.rfind(b"\\n", 0, -1) + 1]\n    if kept != text:\n        replace_bytes',
        "tests/test_log.py",
    ),
    Fault(
        "a log is truncated without a checkpoint",
        '_set_aside(path, "before", text)',
        "path.name",
        "tests/test_log.py -k from_scratch",
    ),
    Fault(
        "digests of a checkpoint are not compared",
        "if name in digests and digests[name] != recorded[name]",
        "if name in digests and found[name] is None",
        "tests/test_checkpoint.py -k flipped",
    ),
    Fault(
        "an imported kernel is not transposed",
        "lambda x, shape: x.T.reshape(shape)",
        "lambda x, shape: x.reshape(shape)",
        "tests/interop/test_folder.py -k round_trip",
    ),
    Fault(
        "an object is matched by its box alone",
        "self.box * distance - likely - self.giou * overlap",
        "self.box * distance - self.giou * overlap",
        "tests/objectives/test_set_prediction.py -k transcript",
    ),
    Fault(
        "a place for a later click is attended to",
        "together(point_labels != IGNORED)",
        "together(point_labels == point_labels)",
        "tests/models/test_sam.py -k prompts_of",
    ),
    Fault(
        "parallel decoding keeps the tokens that are least sure",
        "jnp.where(masked, confidence, jnp.inf)",
        "jnp.where(masked, -confidence, jnp.inf)",
        "tests/decoding/test_parallel_decoding.py -k transcript",
    ),
    Fault(
        "the gradient of a convolution's kernel forgets the stride",
        "Window(window.dilation, tuple(of_kernel), window.strides)",
        "Window(window.dilation, tuple(of_kernel), ones)",
        "tests/nn/test_conv.py -k jax_derives",
    ),
    Fault(
        "a microbatch starts from the model state of the one before",
        "more, part_output = gradient_of(model_state, *numbered)",
        "more, part_output = gradient_of(output.model_state, *numbered)",
        "tests/train/test_model_state.py -k microbatches",
        mesh=True,
    ),
    Fault(
        "a microbatch of a contrastive loss is compared in the place of the first one",
        "return whole.at[self.part].set(rows)",
        "return whole.at[0].set(rows)",
        "tests/objectives/test_contrastive.py -k microbatches_change",
    ),
    Fault(
        "a gathered kernel has a shard of another place",
        "return unshard_param(kernel.astype(dtype), *axes)",
        "kernel = unshard_param(kernel.astype(dtype), *axes)\n"
        '    return jax.numpy.roll(kernel, jax.sharding.get_abstract_mesh().shape.get("fsdp", 1) - 1, 0)',
        "tests/train/test_step.py -k every_mesh",
        mesh=True,
    ),
    Fault(
        "a family's kernels are transposed when they are written, not when they are read",
        "_POINTWISE = TensorLayout(lambda x: x.T[:, :, None, None], lambda x, shape: x[:, :, 0, 0].T.reshape(shape))",
        "_POINTWISE = TensorLayout(lambda x: x.T[:, :, None, None], lambda x, shape: x[:, :, 0, 0].reshape(shape))",
        "tests/interop/test_parity.py -m slow",
        one_family=True,
    ),
    Fault(
        "an example of a family that is not in the cover depends on the others of its batch",
        "features = self.features(image, train)\n        tokens =",
        "features = self.features(image, train)\n        features -= features.mean(0, keepdims=True)\n        tokens =",
        "tests/test_contracts.py -k test_pair",
        one_family=True,
    ),
    Fault(
        "a run that resumes after an epoch skips a batch",
        "return _batches(read, start_step, sys",
        "start_step += start_step * batch_size > len(source)\n    return _batches(read, start_step, sys",
        "tests/data/test_loader.py -k start_at_any_step",
    ),
    Fault(
        "an import follows a link out of its folder",
        "if not any(target.is_relative_to(root) for root in inside):",
        "if not any(target.is_relative_to(root) for root in (*inside, Path('/'))):",
        "tests/io/test_kept_files.py -k link_out",
    ),
    Fault(
        "an adapter's branch is not scaled",
        "return y + self.factor * Branch(*self.halves(module), None, self.dropout",
        "return y + Branch(*self.halves(module), None, self.dropout",
        "tests/nn/test_adapters.py -k merged_kernels",
    ),
    Fault(
        "a temporary name is fixed",
        'f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"',
        'f".{path.name}.0-00000000.tmp"',
        "tests/io/test_temporary.py -k same_time",
    ),
)
HASHES = [f"{number:040x}" for number in range(TURNS)]  # commits, one of each turn


def place(fault: Fault, tree: Path) -> Path:
    """The file that has the fault's text.

    Raises:
      ValueError: there is not exactly one place.
    """
    found = [path for path in sorted((tree / "txjax").rglob("*.py")) for _ in range(path.read_text().count(fault.text))]
    if len(found) != 1:
        raise ValueError(f"{fault.title}: expected one place with {fault.text!r}, got {len(found)}")
    return found[0]


def copy(tree: Path, folder: Path) -> Path:
    """The files of a checkout that git knows or may come to know."""
    names = subprocess.run(
        ["git", "-C", tree, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, names):
        if (tree / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, folder / name)
    return folder


def turns_that_find(fault: Fault, tree: Path, hashes: Sequence[str]) -> list[int]:
    """The turns in which the fault's tests fail in this tree, among those that a change runs.

    Where nothing is left out of these tests they are the same in every turn, so they run once.

    Raises:
      RuntimeError: tests can't be run.
    """
    failed, selected = run_tests(fault, tree, hashes[0])
    if not selected:
        return list(range(TURNS)) if failed else []
    results = [failed, *(run_tests(fault, tree, commit)[0] for commit in hashes[1:])]
    return [turn for turn, failed in enumerate(results) if failed]


def run_tests(fault: Fault, tree: Path, commit: str) -> tuple[bool, bool]:
    """Whether the fault's tests fail in this tree, among those that a change runs, and whether some are left out.

    Raises:
      RuntimeError: they can't be run.
    """
    markers = "-m mesh" if fault.mesh and "mesh:" in (tree / "pyproject.toml").read_text() else ""
    words = f"{sys.executable} -m pytest -n 0 -x -q -p no:cacheprovider {markers} {fault.tests}"
    environment = os.environ | {"PYTHONPATH": str(tree), "TXJAX_COMMIT": commit}
    done = subprocess.run(words, shell=True, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    selected = re.search(r"^[1-9]\d* of \d+ tests are left out", done.stdout, re.MULTILINE) is not None
    return done.returncode == 1, selected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout")
    parser.add_argument("words", nargs="*")
    flags = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copy(flags.tree, Path(folder))
        for fault in FAULTS:
            if flags.words and not any(word in fault.title for word in flags.words):
                continue
            path = place(fault, tree)
            whole = path.read_text()
            if turns_that_find(fault, tree, HASHES[:1]):
                raise RuntimeError(f"without the fault, too, these fail: {fault.tests}")
            path.write_text(whole.replace(fault.text, fault.instead))
            turns = turns_that_find(fault, tree, HASHES)
            path.write_text(whole)
            suffices = len(turns) >= (1 if fault.one_family else TURNS)
            missed += not suffices
            result = f"{'found' if suffices else 'MISSED'} in {len(turns)} of {TURNS} turns"
            print(f"{result}  {fault.title}  ({fault.tests})", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
