"""txjax scaling coordinates: checks that activations keep their size as a config's model gets wider."""

import dataclasses
import json
from pathlib import Path

from txjax.cli.parser import Parser
from txjax.errors import UserError

SUMMARY = "check that activations keep their size as a config's model gets wider"


def run(argv: list[str]) -> int:
    parser = Parser("scaling coordinates", __doc__)
    parser.add_config()
    parser.add_argument("--widths", default="32,64,128,256", help="widths of the model; default: 32,64,128,256")
    parser.add_argument(
        "--head_size", type=int, help="heads of this size, so that their number grows; default: the same number"
    )
    parser.add_argument("--steps", type=int, default=4, help="updates; default: 4")
    parser.add_argument("--seeds", type=int, default=1, help="initialisations, averaged; default: 1")
    parser.add_argument("--beside_standard", action="store_true", help="compare with the standard parametrization")
    parser.add_argument("--out", required=True, type=Path, help="the folder for the plots and coordinates.json")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags, overrides = parser.parse_known(argv)
    widths = _numbers("--widths", flags.widths)
    for name in ("steps", "seeds", "head_size"):
        if (value := getattr(flags, name)) is not None and value < 1:
            raise UserError(f"--{name}", "at least 1", value)

    from txjax import config
    from txjax.backend import prepare
    from txjax.experiment import with_default_eval_data
    from txjax.io.files import replace_text
    from txjax.mup.activations import OUTPUT, measure
    from txjax.mup.coordinate_check import check
    from txjax.parametrization import Standard
    from txjax.report.png import write_figure
    from txjax.report.size_plots import draw_coordinates
    from txjax.report.theme import LIGHT
    from txjax.train.check import check as check_experiment

    prepare()
    experiments = []
    for width in widths:
        sizes = [f"--config.model.width={width}"]
        if flags.head_size:
            sizes.append(f"--config.model.heads={width // flags.head_size}")
        experiments.append(with_default_eval_data(config.load(flags.config, [*overrides, *sizes])))
        check_experiment(experiments[-1])
    compared = {type(experiments[0].model.parametrization).__name__: experiments}
    if flags.beside_standard:
        plain = [dataclasses.replace(e, model=e.model.clone(parametrization=Standard())) for e in experiments]
        compared |= {"Standard": plain}
    checks = {}
    for name, group in compared.items():
        rows = [row for experiment in group for row in measure(experiment, flags.steps, range(flags.seeds))]
        checks[name] = rows, check(rows, OUTPUT)
    flags.out.mkdir(parents=True, exist_ok=True)
    pictures = write_figure(draw_coordinates(checks, OUTPUT, LIGHT), flags.out, "coordinates")
    results = {
        name: dataclasses.asdict(checked) | {"rows": [dataclasses.asdict(row) for row in rows]}
        for name, (rows, checked) in checks.items()
    }
    replace_text(flags.out / "coordinates.json", json.dumps(results) + "\n")
    if flags.json:
        short = {name: {"flat": one["flat"], "verdict": one["verdict"]} for name, one in results.items()}
        print(json.dumps({"checks": short, "pictures": [str(path) for path in pictures]}))
        return 0
    for name, (_, checked) in checks.items():
        print(f"{name}: {checked.verdict}")
    print("\n".join(map(str, pictures)))
    return 0


def _numbers(flag: str, text: str) -> list[int]:
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(flag, "whole numbers and commas, such as 64,128,256", text) from None
    if len(set(numbers)) < 3 or len(set(numbers)) < len(numbers) or min(numbers) < 1:
        raise UserError(flag, "at least three different widths", text)
    return sorted(numbers)
