"""The configs that come with txjax, in the package or beside it in a checkout: `--config=txjax:text/gpt_tiny`."""

import ast
from pathlib import Path

from txjax.errors import UserError, near_misses

PREFIX = "txjax:"


def configs_folder() -> Path:
    """The folder of the configs."""
    package = Path(__file__).parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def config_names() -> list[str]:
    """The names of all configs, such as `text/gpt_tiny`."""
    folder = configs_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.py"))


def config_path(field: str, name: str) -> Path:
    """The file of a config.

    Args:
      field: the flag that names it, for the message.

    Raises:
      UserError: there is no such config.
    """
    names = config_names()
    if name.removesuffix(".py") not in names:
        same = [known for known in names if known.split("/")[-1] == name.split("/")[-1].removesuffix(".py")]
        near = [PREFIX + known for known in same or near_misses(name, names)]
        raise UserError(field, "a config of txjax", PREFIX + name, near, hint="`txjax configs` lists them")
    return configs_folder() / f"{name.removesuffix('.py')}.py"


def config_summary(name: str) -> str:
    """What a config trains: the first line of its docstring."""
    text = config_path("name", name).read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
