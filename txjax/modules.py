"""Python files named on the command line, run as modules: config files, and the user's components."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from txjax.errors import UserError, near_misses
from txjax.user_code import refusal

_ours: dict[str, ModuleType] = {}  # modules that `run_file` ran, by name
_folders: set[Path] = set()  # of these files


def run_file(flag: str, path: Path) -> ModuleType:
    """Runs a Python file as the module of its name; it may import the other files of its folder.

    Every call creates a new module. It is in `sys.modules` by name, unless another module has that name.

    Args:
      flag: the flag that named the file, for the message.

    Raises:
      UserError: there is no such file, or its code raises; the message has the line.
    """
    if not path.is_file():
        raise UserError(flag, "a Python file", str(path), _similar_files(path))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if (folder := path.resolve().parent) not in _folders:
        _folders.add(folder)
        sys.path.append(str(folder))  # last: no file of it shadows an installed module
    if not _is_taken(path):
        sys.modules[path.stem] = _ours[path.stem] = module
    try:
        with running(flag, path, "code"):
            spec.loader.exec_module(module)
    except UserError:
        if _ours.get(path.stem) is module:
            del sys.modules[path.stem], _ours[path.stem]
        raise
    return module


def trusted_modules(words: Sequence[str]) -> tuple[str, ...]:
    """The names of the modules that `--trust` allows a workdir's config.json to name.

    Args:
      words: a module's name (it and its submodules), or the path of a Python file (it and the files of its folder).

    Raises:
      UserError: there is no such module or file, or it can't be run.
    """
    names: list[str] = []
    for word in words:
        if not word.endswith(".py"):
            names.append(_require_module(word))
            continue
        path = Path(word)
        if path.is_file() and _is_taken(path):
            raise UserError("--trust", "a file whose name no other module has", word)
        run_file("--trust", path)
        # Files only: a folder beside it may be a workdir from an untrusted source.
        names += [path.stem, *(other.stem for other in path.parent.glob("*.py") if not _is_taken(other))]
    return tuple(names)


@contextlib.contextmanager
def running(flag: str, path: Path, what: str) -> Iterator[None]:
    """Turns any error of the file's code, or of files that it imports, into a one-line UserError with the line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise refusal(flag, f"a file whose {what} runs", path, error) from error


def _similar_files(path: Path) -> list[str]:
    """Up to three Python files: of the same name below `configs/`, or of similar names in the same folder."""
    if shipped := [str(other) for other in sorted(Path("configs").rglob("*.py")) if other.stem == path.stem]:
        return shipped[:3]
    return near_misses(str(path), [str(other) for other in path.parent.glob("*.py")] if path.parent.is_dir() else [])


def _is_taken(path: Path) -> bool:
    """Whether another module has the name of this file."""
    name = path.stem
    if name in sys.modules:
        loaded_from = getattr(sys.modules[name], "__file__", None)
        return sys.modules[name] is not _ours.get(name) and not _lies_at(loaded_from, path)
    spec = None if "." in name else importlib.util.find_spec(name)
    return "." in name or (spec is not None and not _lies_at(spec.origin, path))


def _lies_at(loaded_from: str | None, path: Path) -> bool:
    """Whether a module's file is this one, or in a folder of another file that was run."""
    file = Path(loaded_from or "").resolve()
    return file == path.resolve() or file.parent in _folders


def _require_module(name: str) -> str:
    """Checks that Python finds a module of this name, and returns the name."""
    with contextlib.suppress(ImportError, ValueError):
        if name in sys.modules or importlib.util.find_spec(name) is not None:
            return name
    near = [file] if Path(file := f"{name.replace('.', '/')}.py").is_file() else []
    raise UserError("--trust", "a module that Python finds, or the path of its file, such as path/mixer.py", name, near)
