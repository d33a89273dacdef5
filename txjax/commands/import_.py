"""txjax import: turns a Hugging Face folder into a workdir, for init_from, evaluate and generate.

With --base the folder is one of peft's, of an adapter, and the workdir has it on that run's last step, or on the model
of that Hugging Face folder.
"""

import json
from pathlib import Path

from txjax.cli.huggingface_files import keep
from txjax.cli.parser import Parser
from txjax.cli.peft_folders import import_adapter

SUMMARY = "make a workdir of a Hugging Face folder"


def run(argv: list[str]) -> int:
    parser = Parser("import", __doc__)
    parser.add_argument("--from", dest="source", required=True, type=Path, help="the folder with config.json")
    parser.add_argument("--workdir", required=True, type=Path, help="the new folder")
    parser.add_argument("--base", type=Path, help="the run, or the Hugging Face folder, that an adapter of peft is for")
    parser.add_trust()
    flags = parser.parse_args(argv)

    import jax

    from txjax import tree
    from txjax.backend import prepare
    from txjax.checkpoint import Store
    from txjax.interop import huggingface
    from txjax.io.files import replace_text
    from txjax.io.kept_files import files_beside_weights
    from txjax.io.new_folder import check_new, new_folder
    from txjax.train.run.workdir import write_manifest

    prepare()
    check_new("--workdir", flags.workdir)
    if flags.base is not None:
        return import_adapter(flags.source, flags.base, flags.workdir, flags.trust)
    if flags.source.is_dir():
        files_beside_weights(flags.source)  # raises before a workdir is made
    model, variables = huggingface.load(flags.source)
    with new_folder("--workdir", flags.workdir) as workdir:
        written_config, missing = keep(flags.source, workdir, flags.workdir, model)
        variables = jax.tree.map(jax.numpy.asarray, variables)
        parameters = variables.pop("params")
        store = Store(workdir)
        weights = {"params": parameters, "frozen": {}, "model_state": variables}
        store.save_parts(0, {"weights": weights}, {"from": str(flags.source.resolve()), "metrics": {}})
        store.wait()
        count = sum(leaf.size for leaf in jax.tree.leaves(parameters))
        write_manifest(workdir, {}, {"parameters": count, "flops_per_step": 0})
        replace_text(workdir / "config.json", json.dumps(tree.to_json(written_config), indent=2) + "\n")
    uses = "evaluate, export and --config.init_from" if written_config is not model else "export and --config.init_from"
    print(f"{type(model).__name__} with {count:,} parameters in {flags.workdir}; for {uses}{missing}")
    return 0
