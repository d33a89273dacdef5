"""Pages of the site for the public names: a page for each package, with signatures, docstrings and examples.

The pages are MyST with the directives of Sphinx's Python domain, so that search, index and links know the names, and so
that a page is readable as Markdown. Annotations are as in the source: `Float[Array, "B L D"]`.
"""

import importlib
import inspect
import itertools
from pathlib import Path

from sphinx.application import Sphinx

import public_names
import reference_examples
from public_names import Argument, PublicName
from reference_examples import Example

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
FENCE = "`" * 6  # longer than a fence in a docstring


def directive(kind: str, head: str, text: str, fence: str = FENCE) -> str:
    """A directive of the Python domain."""
    return f"{fence}{{py:{kind}}} {head}\n{text}\n{fence}\n"


def signature(name: str, arguments: list[Argument], returns: str = "") -> str:
    """A signature in one line."""
    return f"{name}({', '.join(map(str, arguments))})" + (f" -> {returns}" if returns else "")


def own_docstring(value: object) -> str:
    """The docstring that stands in the source; a dataclass without one has only what Python makes."""
    if not isinstance(value, type):
        return inspect.getdoc(value) or ""
    text = inspect.cleandoc(vars(value).get("__doc__") or "")
    return "" if text.startswith(f"{value.__name__}(") else text


def attributes_as_list(text: str) -> str:
    """The sections of a docstring, such as `Attributes:`, with their entries as a list."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("  ") and not line.startswith("   ") and ": " in line:
            name, _, rest = line.strip().partition(": ")
            lines[i] = f"- `{name}`: {rest}"
        elif line.rstrip(":") in ("Attributes", "Args", "Returns", "Raises", "Yields") and line.endswith(":"):
            lines[i] = f"**{line.rstrip(':')}**\n"
    return "\n".join(lines)


def methods(cls: type) -> list[str]:
    """The methods that a class itself defines with a docstring: what a subclass replaces, or a user calls."""
    functions = [inspect.unwrap(value) for value in vars(cls).values() if inspect.isfunction(value)]
    public = [function for function in functions if function.__doc__ and is_public_method(function.__name__)]
    return [
        directive(
            "method",
            signature(function.__name__, *public_names.function_arguments(function)),
            attributes_as_list(inspect.cleandoc(function.__doc__)),
            fence=FENCE[1:],
        )
        for function in public
        if function.__module__ == cls.__module__
    ]


def is_public_method(name: str) -> bool:
    """Whether a class's user calls or replaces a method of this name."""
    return name == "__call__" or not name.startswith("_")


def links(name: PublicName, examples: list[Example]) -> str:
    """Links to at most three of the examples below that show a name, the shortest ones."""
    shown = sorted((example for example in examples if example.shows(name)), key=lambda example: len(example.code))[:3]
    targets = [f"[{example.title}](#{example.anchor()})" for example in shown]
    return f"\n\n*Example*: {', '.join(targets)}." if targets else ""


def entry(name: PublicName, examples: list[Example]) -> str:
    """What the page of a package says of one of its names."""
    text = attributes_as_list(own_docstring(name.value)) + links(name, examples)
    if isinstance(name.value, type):
        head = signature(name.name, public_names.class_fields(name.value))
        return directive("class", head, "\n".join([text, "", *methods(name.value)]))
    head = signature(name.name, *public_names.function_arguments(name.value))
    return directive("function", head, text)


def section(example: Example) -> str:
    """An example below the names of its page."""
    text = f"{example.text}\n\n" if example.text else ""
    return f"### {example.title}\n\n{text}```python\n{example.code}\n```\n"


def page_text(module: str, names: list[PublicName]) -> str:
    """The page of a package; the models of the families stand below their own packages, and examples at the end."""
    examples = [reference_examples.read_example(path) for path in reference_examples.paths_of(module)]
    text = f"# {module}\n\n{inspect.getdoc(importlib.import_module(module)) or ''}\n\n"
    for package, group in itertools.groupby(names, key=lambda name: name.module):
        heading = f"## {package}\n\n" if package != module else ""
        entries = "\n".join(entry(name, examples) for name in group)
        text += heading + directive("currentmodule", package, "") + "\n" + entries + "\n"
    return text + "\n".join(["## Examples\n", *map(section, examples)])


def write_pages(app: Sphinx, config: object) -> None:
    """Writes the pages before Sphinx looks for documents."""
    REFERENCE.mkdir(exist_ok=True)
    for module, names in public_names.public_names().items():
        page = REFERENCE / f"{module}.md"
        text = page_text(module, names)
        if not page.exists() or page.read_text() != text:  # unchanged pages are not built again
            page.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
