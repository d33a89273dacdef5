"""txjax export: writes a step of a run as a folder that Hugging Face's transformers loads.

--push=owner/name also makes the folder the content of a repository of the Hugging Face Hub, in one commit.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.parser import Parser
from txjax.cli.peft_folders import export_adapter
from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.interop.huggingface.hub import Repository
    from txjax.types import PyTree

SUMMARY = "write a checkpoint of a run as a Hugging Face folder"


def run(argv: list[str]) -> int:
    parser = Parser("export", __doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--to", required=True, type=Path, help="the new folder")
    parser.add_argument("--step", default="last", help="last (default), best or a number")
    parser.add_argument("--part", choices=("generator", "discriminator"), help="of a run of Electra: which encoder")
    parser.add_argument("--family", help="the model_type to write, where several families have the model")
    parser.add_argument("--adapter", action="store_true", help="the adapter alone, as a folder of peft")
    parser.add_argument("--push", metavar="OWNER/NAME", help="the repository of the Hub that gets the folder")
    parser.add_argument("--visibility", choices=("private", "public"), help="of a new repository; default: private")
    parser.add_argument("--replace", action="store_true", help="push also into a repository that has other files")
    parser.add_trust()
    flags = parser.parse_args(argv)

    from txjax.backend import prepare
    from txjax.checkpoint import Store
    from txjax.cli.merging import trained_paths, weights, without_adapter, without_storage
    from txjax.experiment import Experiment
    from txjax.interop import huggingface
    from txjax.interop.huggingface.companions import describe_run, write_companions
    from txjax.interop.huggingface.model_card import write_model_card
    from txjax.io.kept_files import KEPT
    from txjax.io.new_folder import check_new, new_folder
    from txjax.modules import trusted_modules
    from txjax.train.run.workdir import read_checkpoints, read_config
    from txjax.tree import read_json

    prepare()
    check_new("--to", flags.to)
    repository = _repository(flags)
    loaded = read_config(flags.workdir, trusted_modules(flags.trust))
    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    step = store.choose(flags.step)
    kept = flags.workdir / KEPT  # of the import that this run, or one that it starts from, is of
    facts = read_json(kept / "config.json") if (kept / "config.json").is_file() else {}
    model, facts = describe_run(loaded, facts) if isinstance(loaded, Experiment) else (loaded, facts)
    model = without_storage(model)
    kernels = weights(store, step)
    if flags.adapter:
        trained = trained_paths(store, step)
        with new_folder("--to", flags.to) as folder:
            export_adapter(loaded, kernels, trained, folder, flags.family, facts.get("model_type"))
        return _finish(f"the adapter of step {step}", flags, repository)
    if getattr(model, "adapter", None) is not None:
        model, kernels = without_adapter(loaded, model, kernels)
        if model.adapter is not None:
            expected = "an adapter that can be merged into kernels, such as LoRA"
            raise UserError("--workdir", expected, type(loaded.model.adapter).__name__)
    model, kernels = chosen_encoder(model, kernels, flags.part)
    with new_folder("--to", flags.to) as folder:
        huggingface.save(model, kernels, folder, facts, family=flags.family)
        write_companions(loaded, kept, folder, facts)
        if isinstance(loaded, Experiment) and step > 0:  # not an import as it is
            write_model_card(folder, flags.workdir, step, store.record(step).get("metrics", {}), loaded)
    return _finish(f"step {step}", flags, repository)


def _repository(flags: argparse.Namespace) -> Repository | None:
    """Where the folder is pushed, of which the Hub has been asked. None without `--push`."""
    from txjax.interop.huggingface.hub import Repository

    if flags.push is None:
        for name in ("visibility", "replace"):
            if getattr(flags, name):
                raise UserError(f"--{name}", "--push=OWNER/NAME beside it")
        return None
    repository = Repository(flags.push, flags.visibility or "private", flags.replace)
    repository.check()
    return repository


def _finish(content: str, flags: argparse.Namespace, repository: Repository | None) -> int:
    print(f"{content} of {flags.workdir} in {flags.to}")
    if repository is not None:
        message = f"{content} of {flags.workdir.resolve().name}"  # no path of this machine
        print(f"pushed to {repository.push(flags.to, message)}")
    return 0


def chosen_encoder(model: Any, variables: PyTree, part: str | None) -> tuple[Any, PyTree]:
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
