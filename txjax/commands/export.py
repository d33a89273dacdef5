"""txjax export: writes a step of a run as a folder that Hugging Face's transformers loads."""

import shutil
from pathlib import Path
from typing import Any

from txjax.cli.imported import KEPT
from txjax.cli.parser import Parser
from txjax.cli.peft_folders import export_adapter
from txjax.types import PyTree, UserError

SUMMARY = "write a checkpoint of a run as a Hugging Face folder"


def run(argv: list[str]) -> int:
    parser = Parser("export", __doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--to", required=True, type=Path, help="the new folder")
    parser.add_argument("--step", default="last", help="last (default), best or a number")
    parser.add_argument("--part", choices=("generator", "discriminator"), help="of a run of Electra: which encoder")
    parser.add_argument("--family", help="the model_type to write, where several families have the model")
    parser.add_argument("--adapter", action="store_true", help="the adapter alone, as a folder of peft")
    parser.add_trust()
    flags = parser.parse_args(argv)

    from txjax.backend import prepare
    from txjax.checkpoint import Store
    from txjax.cli.merging import trained_paths, weights, without_adapter, without_storage
    from txjax.experiment import Experiment
    from txjax.interop import huggingface
    from txjax.modules import trusted
    from txjax.train.workdir import read_checkpoints, read_config
    from txjax.tree import read_json

    prepare()
    found = read_config(flags.workdir, trusted(flags.trust))
    model, facts = described(found) if isinstance(found, Experiment) else (found, {})
    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    step = store.choose(flags.step)
    kept = flags.workdir / KEPT  # written by `txjax import`
    if (kept / "config.json").is_file():
        facts = read_json(kept / "config.json") | facts
    model, kernels = without_storage(model), weights(store, step)
    if flags.adapter:
        trained = trained_paths(store, step)
        export_adapter(found, kernels, trained, flags.to, flags.family, facts.get("model_type"))
        print(f"the adapter of step {step} of {flags.workdir} in {flags.to}")
        return 0
    if getattr(model, "adapter", None) is not None:
        model, kernels = without_adapter(found, model, kernels)
        if model.adapter is not None:
            expected = "an adapter that can be merged into kernels, such as LoRA"
            raise UserError("--workdir", expected, type(found.model.adapter).__name__)
    model, kernels = chosen(model, kernels, flags.part)
    huggingface.save(model, kernels, flags.to, facts, family=flags.family)
    for path in sorted(kept.glob("*")) or tokenizer(found):
        if path.name != "config.json":
            shutil.copy(path, flags.to / path.name)
    print(f"step {step} of {flags.workdir} in {flags.to}")
    return 0


def described(experiment: Any) -> tuple[Any, dict[str, Any]]:
    """A run's model with the image size of its data, and the entries of config.json that objective and data imply."""
    from txjax.data import Pairs
    from txjax.objectives import MaskedPatch, SpanCorruption

    model, spec = experiment.model, experiment.data.spec()
    if getattr(model, "image_size", None) == () and "image" in spec:
        model = model.clone(image_size=spec["image"].shape[:2])
    match experiment.objective, experiment.data:
        case MaskedPatch(rate=rate, target=target), _:
            return model, {"mask_ratio": rate, "norm_pix_loss": target == "normalised"}
        case SpanCorruption(start_id=start, end_id=end), _:
            return model, {"decoder_start_token_id": start, "eos_token_id": end}
        case _, Pairs(tokenizer=tokenizer) as pairs:
            start, end = (tokenizer.special(name) for name in (pairs.start, pairs.end))
            return model, {"decoder_start_token_id": start, "eos_token_id": end}
    return model, {}


def chosen(model: Any, variables: PyTree, part: str | None) -> tuple[Any, PyTree]:
    """One of the encoders that a model trains together; other models as they are.

    Raises:
      UserError: no part of a model that has several, or one of a model that has none.
    """
    several = hasattr(model, "alone")
    if several == (part is None):
        expected = "generator or discriminator, of which Hugging Face has a class each" if several else "no part"
        raise UserError("--part", f"{expected} (the model is a {type(model).__name__})", part)
    if part is None:
        return model, variables
    model, params = model.alone(part, variables["params"])
    return model, variables | {"params": params}


def tokenizer(experiment: Any) -> list[Path]:
    """The path of the tokenizer.json that a run's data reads, if any."""
    path = Path(getattr(getattr(getattr(experiment, "data", None), "tokenizer", None), "path", ""))
    return [path] if path.name == "tokenizer.json" and path.is_file() else []
