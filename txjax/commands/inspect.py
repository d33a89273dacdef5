"""txjax inspect: what a model reads of a few examples: attention, class activation, filters, spectrograms, sound."""

import dataclasses
import json
from typing import TYPE_CHECKING

from txjax.cli.load_run import open_run, parser, read
from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.sharding import Mesh

SUMMARY = "draw what a trained model reads: attention, rollout, class activation, filters"


def run(argv: list[str]) -> int:
    flag_parser = parser("inspect", __doc__)
    flag_parser.add_argument("--data", metavar="NAME", help="an evaluation, or train; default: the first evaluation")
    flag_parser.add_argument("--examples", type=int, default=4, help="how many, from the first on; default 4")
    flag_parser.add_argument(
        "--input",
        action="append",
        metavar="TEXT",
        help="a text, or a recording's file, instead of the data; repeatable",
    )
    for name in ("layer", "head"):
        meaning = f"only this {name}, from 0; -1 is the last; repeatable, or 0,2,-1"
        flag_parser.add_argument(f"--{name}", action="append", metavar="N", help=meaning)
    flag_parser.add_argument("--query", metavar="ROW,COLUMN", help="of an image: the pixel in whose patch the query is")
    flag_parser.add_argument("--out", metavar="FOLDER", help="default: the run's folder, inspect/step_N/")
    flags = flag_parser.parse_args(argv)
    layers = numbers("--layer", flags.layer)
    heads = numbers("--head", flags.head)
    if flags.examples < 1:
        raise UserError("--examples", "at least 1", flags.examples)

    from pathlib import Path

    import jax

    from txjax.io.files import replace_bytes, replace_text
    from txjax.io.text_files import argument_text
    from txjax.log.terminal_table import table
    from txjax.report.inspection.audio_pictures import audio_pictures
    from txjax.report.inspection.audio_views import audio_views
    from txjax.report.inspection.examples import examples_from, examples_of, part_named, place_of
    from txjax.report.inspection.findings import SHOWN, findings
    from txjax.report.inspection.inspect_page import inspect_page, pictures_of
    from txjax.report.inspection.token_page import text_paths, token_page
    from txjax.report.runs import check_inside
    from txjax.terminal_escape import visible

    experiment = read(flags)
    experiment.mesh = without_pipeline(experiment.mesh)
    model, objective, data, field = part_named(experiment, flags.data)
    query = place_of(flags.query, data)
    with open_run(flags, experiment) as loaded:
        variables = loaded.variables
        if flags.input:
            examples = examples_from([argument_text(text, "--input") for text in flags.input], model, variables, data)
        else:
            examples = examples_of(model, objective, data, field, flags.examples)
        inspected = findings(model, variables, examples, layers, heads, query)
        key = jax.random.fold_in(jax.random.key(experiment.seed), max(loaded.step - 1, 0))  # the last update's
        shown = [inspection.example for inspection in inspected.inspections[:SHOWN]]
        views, more = audio_views(model, variables, objective, shown, key)
        pictures = [*audio_pictures(inspected, views)]
        pictures += pictures_of(inspected, model, variables["params"], data.class_names())
    notes = [*inspected.notes, *more]
    out = Path(flags.out) if flags.out else flags.workdir / "inspect" / f"step_{loaded.step}"
    if not flags.out:
        check_inside("--out", out, flags.workdir)
    out.mkdir(parents=True, exist_ok=True)
    title = f"{flags.workdir.resolve().name} · step {loaded.step}"
    subtitle = f"{type(model).__name__} · {'texts of --input' if flags.input else field.removeprefix('config.')}"
    written = {}
    for picture in pictures:
        for name, content in picture.files().items():
            written[out / name] = picture.section
            replace_bytes(out / name, content)
    texts = any(text_paths(inspection) for inspection in inspected.inspections)
    if texts:
        replace_text(out / "tokens.html", token_page(inspected, title, subtitle))
        written[out / "tokens.html"] = "Attention of every token"
    page = inspect_page(title, subtitle, pictures, notes, "tokens.html" if texts else None)
    replace_text(out / "index.html", page)
    written[out / "index.html"] = "all pictures"
    if flags.json:
        files = [str(path) for path in written]
        chosen = {path: {"layers": of[0], "heads": of[1]} for path, of in inspected.chosen.items()}
        print(json.dumps({"step": loaded.step, "files": files, "chosen": chosen, "notes": notes}))
        return 0
    table(title, ["file", "shows"], [[path.name, shows] for path, shows in written.items()])
    print("\n".join(map(visible, [*notes, str(out / "index.html")])))
    return 0


def without_pipeline(mesh: "Mesh") -> "Mesh":
    """The mesh with replicas in place of stages, from which maps are not gathered."""
    if mesh.pipeline == 1:
        return mesh
    rest = -1 in (mesh.fsdp, mesh.tensor, mesh.sequence, mesh.expert)
    return dataclasses.replace(mesh, pipeline=1, data=mesh.data if rest else -1)


def numbers(flag: str, values: list[str] | None) -> list[int] | None:
    """The numbers of a flag that may be repeated and have several, `0,2,-1`. Raises UserError for anything else."""
    if values is None:
        return None
    try:
        return [int(part) for value in values for part in value.split(",")]
    except ValueError:
        raise UserError(flag, "numbers such as 0 or 0,2,-1", ",".join(values)) from None
