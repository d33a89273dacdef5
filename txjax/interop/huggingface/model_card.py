"""The model card of an exported run, README.md: what it is, how to load it, its scores, what it was trained on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax.data.tokenizers.tokenizer_folder import FILE as TOKENIZER
from txjax.experiment import Experiment
from txjax.interop.huggingface.audio_reading import PROCESSOR, front_end_of
from txjax.interop.huggingface.image_reading import PREPROCESSOR
from txjax.io.files import replace_text
from txjax.tree import read_json

CARD = "README.md"
BASE_CARD = "README.base.md"  # of the imported folder that the run starts from
HEAD = "---\nlibrary_name: transformers\ntags:\n- txjax\n---"
UNKNOWN = """## Not stated

The licence, what the model is for and what it must not be used for, and what its data contain: they are to be added by
those who publish it."""


def write_model_card(folder: Path, workdir: Path, step: int, scores: Mapping[str, float], run: Experiment) -> None:
    """Writes the card of a step of a run. The card of an imported model, if the folder has it, gets another name.

    Args:
      folder: the exported one, with its config.json.
      scores: of the step, by their names in the log.
      run: the experiment.
    """
    base = ""
    if (folder / CARD).exists():
        (folder / CARD).rename(folder / BASE_CARD)
        base = f"The model that it was trained from has its card in [{BASE_CARD}]({BASE_CARD})."
    manifest = read_json(workdir / "manifest.json") if (workdir / "manifest.json").exists() else {}
    config = read_json(folder / "config.json")
    architecture = next(iter(config.get("architectures") or ()), type(run.model).__name__)
    size = f" with {manifest['parameters']:,} parameters" if "parameters" in manifest else ""
    what = f"`{architecture}`{size}: step {step:,} of {run.num_steps:,} of a run of txjax."
    usage = _usage(folder, architecture, run)
    parts = (HEAD, f"# {workdir.resolve().name}", what, base, usage, _scores(scores), _training(manifest, run), UNKNOWN)
    replace_text(folder / CARD, "\n\n".join(part for part in parts if part) + "\n")


def _usage(folder: Path, architecture: str, run: Experiment) -> str:
    signals = "AutoImageProcessor" if front_end_of(run.model) is None else "AutoFeatureExtractor"
    by_file = {PROCESSOR: "AutoProcessor", PREPROCESSOR: signals, TOKENIZER: "AutoTokenizer"}
    readers = [reader for file, reader in by_file.items() if (folder / file).is_file()][:1]
    names = [architecture, *readers]
    lines = [f"from transformers import {', '.join(sorted(names))}", ""]
    lines += [f'{"model" if name == architecture else "reader"} = {name}.from_pretrained("FOLDER")' for name in names]
    return "\n".join(["```python", *lines, "```"])


def _scores(scores: Mapping[str, float]) -> str:
    rows = [[name, f"{value:.5g}"] for name, value in scores.items()]
    return "## Scores\n\n" + _table(["metric", "value"], rows) if rows else ""


def _training(manifest: Mapping[str, Any], run: Experiment) -> str:
    optimizer = f"{type(run.optimizer).__name__}, peak learning rate {run.optimizer.peak_lr:g}"
    split = getattr(run.data, "record_split", None)
    rows = [
        ["data", f"{type(run.data).__name__} of {split.title}" if split else type(run.data).__name__],
        ["objective", type(run.objective).__name__],
        ["optimizer", f"{optimizer}, batches of {run.batch_size}"],
        *(
            ["starts from", f"step {origin['step']} of {Path(origin['run']).name}"]
            for origin in manifest.get("init_from", ())
        ),
    ]
    if "devices" in manifest:
        devices = manifest["devices"]
        versions = manifest.get("versions", {})
        rows.append(["devices", f"{devices['count']} x {devices['kind']}"])
        rows.append(
            ["software", ", ".join(f"{name} {versions[name]}" for name in ("txjax", "jax", "flax") if name in versions)]
        )
        rows.append(["begun", manifest["created"]])
    return "## Training\n\n" + _table(["", ""], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
