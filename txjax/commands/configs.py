"""txjax configs: the configs that come with txjax, and copies of them to change.

    txjax configs                        all, each with what it trains
    txjax configs vit                    those with a word in their name or in what they train
    txjax configs --copy=text/gpt_tiny   a copy of one in this folder

`--config=txjax:text/gpt_tiny` runs one as it is.
"""

import json
from pathlib import Path

from txjax.cli.parser import Parser
from txjax.errors import UserError
from txjax.shipped_configs import PREFIX, config_names, config_path, config_summary

SUMMARY = "the configs that come with txjax, and copies of them"


def run(argv: list[str]) -> int:
    parser = Parser("configs", __doc__)
    parser.add_argument("word", nargs="?", default="", help="a part of the name, or of what the config trains")
    parser.add_argument("--copy", metavar="NAME", help="a config to copy")
    parser.add_argument("--to", type=Path, metavar="FILE", help="the copy; default NAME.py in this folder")
    parser.add_argument("--json", action="store_true", help="print JSON: names and what they train")
    flags = parser.parse_args(argv)
    if flags.copy is not None:
        return copy(flags.copy.removeprefix(PREFIX), flags.to)
    if flags.to is not None:
        raise UserError("--to", "--copy=NAME too", str(flags.to))
    summaries = {name: config_summary(name) for name in config_names()}
    word = flags.word.lower()
    chosen = {name: text for name, text in summaries.items() if word in f"{name} {text}".lower()}
    if not chosen:
        raise UserError("word", "a part of the name of a config, or of what it trains", flags.word)
    if flags.json:
        print(json.dumps(chosen))
        return 0
    width = max(map(len, chosen))
    for name, text in chosen.items():
        print(f"{PREFIX}{name:<{width}}  {text}")
    return 0


def copy(name: str, to: Path | None) -> int:
    """Copies a config to a new file. Raises UserError if there is no such config, or a file already."""
    path = config_path("--copy", name)
    target = to or Path(path.name)
    if target.exists():
        raise UserError("--to", "a new file", str(target))
    if not target.parent.is_dir():
        raise UserError("--to", "a file in a folder that is there", str(target))
    target.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"{target} is a copy: txjax train --config={target} --workdir=runs/{target.stem}")
    return 0
