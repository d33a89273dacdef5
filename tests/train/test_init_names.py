"""A run that starts from another one has its classes and languages, where it takes their parameters."""

import json

import pytest

from txjax import sharding, tree
from txjax.checkpoint import Store
from txjax.data import InLanguage, TokenLabels
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.nn import TokenClasses
from txjax.objectives import TokenClassification
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import build_layout
from txjax.transfer import From
from txjax.types import UserError

from helpers.arrays import fill

pytestmark = pytest.mark.claim(
    "Transfer",
    "classifiers come with their classes, tables of languages with their languages",
)

NAMES = {"train": ("NOUN", "VERB", "ADJ"), "test": ("VERB", "NOUN", "ADJ"), "again": ("NOUN", "VERB", "ADJ")}


def experiment(split: str, languages: tuple[str, ...] = ("en", "de")) -> Experiment:
    model = Bert(vocab=258, width=8, depth=1, heads=1, languages=2, head=TokenClasses(3))
    data = InLanguage(TokenLabels("made", split, classes=3, length=8), "en", languages)
    return Experiment(model=model, objective=TokenClassification(), data=data, batch_size=8)


def test_classes_and_languages_of_other_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(TokenLabels, "class_names", lambda self: NAMES[self.split])
    saved, workdir = experiment("train"), tmp_path / "run"
    with sharding.use_mesh(saved.mesh) as built:
        layout = build_layout(saved, built)
        store = Store(workdir, saved.checkpoint)
        store.save(3, fill(layout.abstract, 3), {"metrics": {}})
        store.wait()

    def start(split: str, languages: tuple[str, ...] = ("en", "de"), **fields):
        (workdir / "config.json").write_text(json.dumps(tree.to_json(saved)))
        other = experiment(split, languages)
        other.init_from = From(str(workdir), **fields)
        with sharding.use_mesh(other.mesh):
            return find_init_source(other, layout)

    assert {row.action for row in start("again").rows} == {"loaded"}
    assert start("test", omit=("head",)).rows
    message = r"^config\.data: expected the classes of .*run at step 3, which head/\w+ is taken from: NOUN, VERB, ADJ"
    with pytest.raises(UserError, match=message + r", got 'VERB, NOUN, ADJ'; omit=\('head',\)") as error:
        start("test")
    assert "\n" not in str(error.value)

    swapped = ("de", "en")
    assert start("again", swapped, omit=("embed_languages",)).rows
    with pytest.raises(
        UserError, match=r"the languages of .*, which embed_languages/\S+ is taken from: en, de, got 'de, en'"
    ):
        start("again", swapped)

    for named, refused in (
        ({"0": "noun", "1": "verb", "2": "adj"}, False),  # as in an imported folder
        ({"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, False),
        ({"0": "verb", "1": "noun", "2": "adj"}, True),
    ):
        (workdir / "huggingface").mkdir(exist_ok=True)
        (workdir / "huggingface" / "config.json").write_text(json.dumps({"id2label": named}))
        if refused:
            with pytest.raises(UserError, match=r"head/\w+ is taken from: verb, noun, adj, got 'NOUN, VERB, ADJ'"):
                start("again")
        else:
            assert start("again").rows
