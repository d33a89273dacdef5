"""Examples of the reference (`docs/examples/`): one for each public name at least, and each runs as it says."""

import functools
import io
import runpy

import pytest

import public_names
import reference_examples

pytestmark = pytest.mark.claim("Documentation", "every public name has an example, which prints what it says")

TRAINED = ("txjax", "txjax.eval")  # packages whose examples train
FILES = [
    pytest.param(path, id=f"{module}-{path.stem}", marks=[pytest.mark.slow] if module in TRAINED else [])
    for module in public_names.public_names()
    for path in reference_examples.paths_of(module)
]


def test_every_public_name_has_an_example():
    missing = []
    for module, names in public_names.public_names().items():
        examples = [reference_examples.read_example(path) for path in reference_examples.paths_of(module)]
        missing += [
            f"docs/examples/{module}/: a file that uses {name.module}.{name.name}"
            for name in names
            if not any(example.shows(name) for example in examples)
        ]
    assert not missing


@pytest.mark.filterwarnings("ignore:'VariableState' was removed:DeprecationWarning")  # as in nn/test_quantize.py
@pytest.mark.parametrize("path", FILES)
def test_example(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    runpy.run_path(str(path), {"print": functools.partial(print, file=printed)}, "__main__")
    assert printed.getvalue().splitlines() == reference_examples.printed_lines(path.read_text())


def test_comments_beside_and_below_prints_are_what_is_printed():
    code = 'x = 1  # one\nprint(x)  # 1\n# 2\n\n# none\nfor y in "ab":\n    print(y)\n# a\n# b\n'
    assert reference_examples.printed_lines(code) == ["1", "2", "a", "b"]
