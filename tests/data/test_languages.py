"""Languages of tokens, translations in one row, and shares of languages by temperature."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import (
    Bitext,
    Bytes,
    InLanguage,
    Mixture,
    Sentences,
    Temperature,
    TextWindows,
    TokenLabels,
    train_batches,
)
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.models.text.electra import Electra
from txjax.nn import PlainMaskedTokens, ReplacedTokens
from txjax.objectives import MaskedToken, NextToken
from txjax.train.check import check
from txjax.types import UserError

from helpers import word_set
from helpers.arrays import shapes

pytestmark = pytest.mark.claim(
    "Data",
    "languages of tokens, translations in one row with positions that begin again, shares by temperature; languages "
    "without an id",
)

SPECIALS = ("[CLS]", "[SEP]", "[MASK]")
CLS, SEP, MASK = 256, 257, 258
BOTH = ("en", "de")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return word_set.prepare(tmp_path_factory.mktemp("tfds"))


def sentences(data_dir, **settings):
    settings = {"split": "train", "text": ("context",), "length": 60, "tokenizer": Bytes(SPECIALS)} | settings
    return Sentences("made_words", data_dir=data_dir, **settings)


def bitext(data_dir, **settings):
    settings = {"text": ("question", "context"), "length": 80, "tokenizer": Bytes(SPECIALS)} | settings
    return Bitext("made_words", "train", data_dir, **settings)


def read(data, index=0):
    return data.open().example(index, 0, np.random.default_rng(0))


@pytest.mark.parametrize("length", [80, 20])
def test_a_translation_is_as_it_is_alone(data_dir, length):
    found = read(bitext(data_dir, length=length, spoken=("de", "en")))
    begin = 0
    texts = [b"Who?", word_set.records(1)[0]["context"].encode()[: length - 8]]
    for number, (text, language) in enumerate(zip(texts, (1, 0), strict=True)):
        end = begin + len(text) + 2
        assert found["tokens"][begin:end].tolist() == [CLS, *text, SEP]
        assert found["positions"][begin:end].tolist() == [*range(end - begin)]
        assert found["weights"][begin:end].tolist() == [0, *[1] * len(text), 0]
        for key, value in {"languages": language, "types": number, "segments": 1}.items():
            assert set(found[key][begin:end].tolist()) == {value}
        begin = end
    assert not any(found[key][begin:].any() for key in found)
    alone = read(bitext(data_dir, length=length, text=("question",), spoken=("de",)))
    for key in ("tokens", "positions", "languages", "weights"):
        np.testing.assert_array_equal(alone[key][:6], found[key][:6])


def test_all_tokens_of_a_data_set_have_its_language(data_dir):
    words = TokenLabels(
        "made_words", "train", data_dir, length=60, text=("words",), classes=3, tokenizer=Bytes(SPECIALS)
    )
    windows = TextWindows(name="txjax_python_text", split="validation", length=16)
    for inner in (sentences(data_dir), words, windows):
        data = InLanguage(inner, "de", BOTH)
        assert data.vocab() == inner.vocab() and data.class_names() == inner.class_names()
        example = read(data)
        assert set(example) == set(data.spec()) - {"id"}
        np.testing.assert_array_equal(example.pop("languages"), np.ones(len(example["tokens"])))
        for key, value in read(inner).items():
            np.testing.assert_array_equal(example[key], value)
    assert InLanguage(words, "en", BOTH).open().fingerprint != InLanguage(words, "de", BOTH).open().fingerprint


def test_batches_are_cut_with_their_languages(data_dir):
    inner = sentences(data_dir, buckets=(30,), sort_batches=2)
    ours, plain = (train_batches(data.open(), batch_size=4, seed=0) for data in (InLanguage(inner, "de", BOTH), inner))
    lengths = set()
    for _ in range(6):
        batch, other = next(ours), next(plain)
        assert batch["languages"].shape == batch["tokens"].shape == other["tokens"].shape
        np.testing.assert_array_equal(batch["id"], other["id"])
        lengths.add(batch["tokens"].shape[1])
    assert lengths == {30, 60}


@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.01])
def test_shares_by_temperature(data_dir, alpha):
    parts = {"large": sentences(data_dir), "small": sentences(data_dir, split="test")}
    mixed = Mixture(parts=parts, weights=Temperature(alpha)).open()
    large = round(12**alpha / (12**alpha + 4**alpha) * 16)  # 12, 10 and 8 of 16
    by_hand = Mixture(parts=parts, weights={"large": large, "small": 16 - large}).open()
    assert mixed.fingerprint == by_hand.fingerprint and len(mixed) == 16


def in_other_order(data_dir):
    return Evaluation(data=InLanguage(sentences(data_dir), "de", ("de", "en")))


def experiment(data, model=None, objective=None, evals=None):
    model = model or Bert(vocab=259, width=8, depth=1, heads=1, types=None, languages=2, head=PlainMaskedTokens())
    return Experiment(
        model=model, objective=objective or MaskedToken(mask_id=MASK, vocab=256), data=data, evals=evals or {}
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda d: experiment(InLanguage(sentences(d), "fr", BOTH)),
            r"config.data.language: expected a language with an id, one of data.languages: en, de, got 'fr'",
        ),
        (
            lambda d: experiment(bitext(d, spoken=("en", "dee"))),
            r"config.data.spoken: expected a language with an id, .*, got 'dee'; did you mean de",
        ),
        (lambda d: experiment(bitext(d, spoken=("en",))), r"config.data.spoken: expected the language of each of"),
        (
            lambda d: experiment(InLanguage(sentences(d), "en", ("en", "de", "fr"))),
            r"config.model.languages: expected at least 3, the languages of config.data: en, de, fr, got 2",
        ),
        (
            lambda d: experiment(sentences(d)),
            r"config.data: expected examples with the ids of their languages, since config.model.languages is 2, got "
            r"'Sentences'; InLanguage",
        ),
        (
            lambda d: experiment(
                Mixture({"a": InLanguage(sentences(d), "en", BOTH), "b": InLanguage(sentences(d), "en", ("de", "en"))})
            ),
            r"config.data.parts.b.languages: expected those of config.data.parts.a: en, de, got 'de, en'",
        ),
        (
            lambda d: experiment(InLanguage(sentences(d), "en", BOTH), evals={"de": in_other_order(d)}),
            r"config.evals.de.data.languages: expected those of config.data: en, de, got 'de, en'",
        ),
        (
            lambda d: experiment(InLanguage(sentences(d, text=("nothing",)), "en", BOTH)),
            r"config.data.data.text: expected a feature of kind Text",
        ),
        (
            lambda d: experiment(
                InLanguage(TextWindows("txjax_python_text", length=8), "en", BOTH),
                Decoder(vocab=256, width=8, depth=1, heads=1),
                NextToken(),
            ),
            "targets",
        ),
    ],
)
def test_languages_that_do_not_fit(data_dir, make, said):
    with pytest.raises(UserError, match=said):
        check(make(data_dir))


def test_models_take_the_languages_of_a_batch():
    sizes = {"vocab": 11, "width": 8, "depth": 1, "heads": 1}
    tokens = jnp.zeros((2, 3), jnp.int32)
    shared = shapes(
        Electra(generator=Bert(**sizes, languages=2), discriminator=Bert(**sizes, languages=2, head=ReplacedTokens())),
        tokens,
        languages=tokens,
    )["params"]
    assert shared["embed_languages"]["embedding"].shape == (2, 8) and "embed_languages" not in shared["discriminator"]
    assert shapes(Decoder(**sizes), tokens, languages=tokens) == shapes(Decoder(**sizes), tokens)
