"""A run that starts from another one has its tokenizers, where it takes its tables of tokens."""

import dataclasses
import json
import logging

import pytest

from txjax import sharding, tree
from txjax.checkpoint import Store
from txjax.data import Bytes, Pairs, TokenizerFolder
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn.adapters import Prompt
from txjax.objectives import NextToken
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import build_layout
from txjax.transfer import From, Words
from txjax.types import UserError

from helpers.arrays import fill

pytestmark = pytest.mark.claim("Transfer", "tables of tokens come with their tokenizer")

SOURCE, TARGET = Bytes(specials=("[END]",)), Bytes(specials=("[START]", "[END]"))
OTHER = Bytes(specials=("[END]", "[START]"))


def experiment(tokenizer=TARGET, source_tokenizer=SOURCE, **fields) -> Experiment:
    model = EncoderDecoder(vocab=258, source_vocab=258, width=8, depth=1, heads=1)
    lengths = dict(source_length=8, length=8)
    data = Pairs("made", "train", tokenizer=tokenizer, source_tokenizer=source_tokenizer, **lengths)
    return Experiment(model=model, objective=NextToken(), data=data, batch_size=8, **fields)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Returns a function that compares an experiment with a saved run; its config may be given."""
    workdir, saved = tmp_path_factory.mktemp("saved") / "run", experiment()
    with sharding.use_mesh(saved.mesh) as built:
        layout = build_layout(saved, built)
        store = Store(workdir, saved.checkpoint)
        store.save(3, fill(layout.abstract, 3), {"metrics": {}})
        store.wait()

    def begin(other: Experiment, theirs: Experiment = saved, omit: tuple[str, ...] = (), words: Words | None = None):
        (workdir / "config.json").write_text(json.dumps(tree.to_json(theirs)))
        other.init_from = From(str(workdir), omit=omit)
        if words is not None:
            of_words = From(str(workdir), "decoder/prompt/tokens", "embed/embedding", resize=(words,))
            other.init_from = other.init_from, of_words
        with sharding.use_mesh(other.mesh) as built:
            return find_init_source(other, layout if words is None else build_layout(other, built))

    return begin


def test_equal_tokenizers(start):
    assert {row.action for row in start(experiment()).rows} == {"loaded"}


def test_another_tokenizer_of_the_target(start):
    message = r"^config\.data\.tokenizer: expected that of .*run at step 3, which embed/embedding is taken from, got "
    with pytest.raises(UserError, match=message + r".*specials.*omit=\('embed',\)") as error:
        start(experiment(tokenizer=OTHER))
    assert "\n" not in str(error.value)
    assert start(experiment(tokenizer=OTHER), omit=("embed",)).rows


def test_another_tokenizer_of_the_words_of_a_prompt(start):
    def started(tokenizer: Bytes) -> list[str]:
        way = Words(("a", "b"), tokenizer)
        other = experiment()
        other.model.adapter = Prompt(length=2, paths="decoder/.*")
        return [row.action for row in start(other, words=way).rows if row.path == "decoder/prompt/tokens"]

    assert started(TARGET) == ["resized"]
    with pytest.raises(UserError, match=r"^config\.init_from\.resize\.tokenizer: expected that of .*specials"):
        started(OTHER)


def test_another_tokenizer_of_the_source(start):
    message = r"^config\.data\.source_tokenizer: expected that of .*which embed_source/embedding is taken from"
    with pytest.raises(UserError, match=message):
        start(experiment(source_tokenizer=OTHER))
    with pytest.raises(UserError, match=message):
        start(experiment(source_tokenizer=None))
    assert start(experiment(source_tokenizer=OTHER), omit=("embed_source",)).rows
    shared = experiment(source_tokenizer=None)
    assert start(shared, experiment(source_tokenizer=TARGET)).rows  # the same tokenizer by another field


def test_files_are_compared_by_their_content(start, tmp_path, caplog):
    from tokenizers import Tokenizer, models

    def saved(name: str, *words: str) -> TokenizerFolder:
        Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[END]")).save(str(tmp_path / name))
        return TokenizerFolder(str(tmp_path / name))

    one, same, another = (saved(f"{i}.json", "[END]", *words) for i, words in enumerate(("ab", "ab", "ba")))
    caplog.set_level(logging.WARNING)
    assert start(experiment(source_tokenizer=one), experiment(source_tokenizer=same)).rows and not caplog.messages
    with pytest.raises(UserError, match=r"^config\.data\.source_tokenizer"):
        start(experiment(source_tokenizer=one), experiment(source_tokenizer=another))
    parsed = dataclasses.replace(one, parse_specials=True)  # a vocabulary is the same, whatever a text becomes
    assert start(experiment(source_tokenizer=one), experiment(source_tokenizer=parsed)).rows
    with pytest.raises(
        UserError,
        match=r"got .class tokenizers\.tokenizer\.Bytes \(there tokenizers\.tokenizer_folder\.TokenizerFolder\)",
    ):
        start(experiment(), experiment(source_tokenizer=one))
    assert start(experiment(source_tokenizer=one), experiment(source_tokenizer=TokenizerFolder("lost.json"))).rows
    assert len(caplog.messages) == 1 and "can't be compared: data.tokenizer.path" in caplog.messages[0]
