"""Cards of families: every folder has one, and what it names exists."""

import re
from pathlib import Path

import pytest

import txjax.models
from txjax import config
from txjax.interop.huggingface.catalog import FAMILIES
from txjax.models.cards import cards
from txjax.tree import walk

CARDS = cards()
ROOT = Path(__file__).parents[2]
FOLDERS = [path.parent for path in Path(txjax.models.__file__).parent.glob("*/*/__init__.py")]
TRAINED = {example.name: example.config for card in CARDS.values() for example in card.examples}


def test_every_family_has_a_card() -> None:
    assert set(CARDS) == {"/".join(folder.parts[-2:]) for folder in FOLDERS}


@pytest.mark.parametrize("name", TRAINED)
def test_the_config_of_a_model_has_it(name: str) -> None:
    experiment = config.load(str(ROOT / TRAINED[name]), [])
    assert name in {type(node).__name__ for _, node in walk(experiment.model)}


def test_what_systems_name_exists() -> None:
    systems = [system for card in CARDS.values() for system in card.systems]
    texts = [system.score + system.equal_to for system in systems]
    paths = [system.config.partition(":")[0] for system in systems]
    paths += [path for text in texts for path in re.findall(r"\]\((.*?)\)", text)]
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    presets = {preset.build for card in CARDS.values() for preset in card.presets}
    assert {build for system in systems for build in system.presets} <= presets


def test_references_have_tables() -> None:
    """A reference of a preset is a class of a table of names."""
    architectures = {name for family in FAMILIES for name in family.architectures}
    references = {preset.reference for card in CARDS.values() for preset in card.presets} - {""}
    assert references <= architectures
