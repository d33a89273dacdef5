"""Images with captions: the rows of their tokens, which caption an example has, what is left out and refused."""

import functools
import itertools

import numpy as np
import pytest

from txjax.data import (
    CaptionChoices,
    CaptionedImages,
    Characters,
    Flip,
    Images,
    MatchedCaptions,
    Trained,
    WordPiece,
    train_batches,
)
from txjax.data.loading.default_eval_data import differences
from txjax.data.loading.rng import example_rng
from txjax.eval import LinearProbe, Retrieval
from txjax.experiment import Experiment, with_default_eval_data
from txjax.objectives import SoftmaxContrastive
from txjax.types import UserError

from helpers import caption_set, photo_set

pytestmark = pytest.mark.claim("Data", "images with captions: first, random and every one; empty and long ones")

CLS, SEP = 256, 257
LENGTH = 16


@pytest.fixture(scope="module")
def captioned(tmp_path_factory):
    """Makes a captioned set of the sequence of captions."""
    data_dir = caption_set.prepare(tmp_path_factory.mktemp("tfds"))
    defaults = dict(name="made_captions", data_dir=data_dir, shape=caption_set.SHAPE, length=LENGTH)
    return functools.partial(CaptionedImages, **defaults | {"text": "{captions/text}"})


def row(text, length=LENGTH):
    tokens = [CLS, *text.encode()[: length - 2], SEP]
    return tokens + [0] * (length - len(tokens))


def texts_of(source, epoch=0, seed=0):
    rows = [source.example(i, epoch, example_rng(seed, epoch, i)) for i in range(len(source))]
    return [text_of(x["tokens"], x["segments"]) for x in rows]


def text_of(tokens, segments):
    return bytes(tokens[1 : segments.sum() - 1].tolist()).decode()


def test_an_example_is_the_image_and_the_framed_caption(captioned):
    data = captioned(mean=(0.25,), std=(0.5,))
    example = data.open().example(1, 0, None)
    assert example["tokens"].tolist() == row("a cat") and example["segments"].tolist() == [1] * 7 + [0] * 9
    assert example["weights"] == 1
    pixels = photo_set.pixels(1).astype(np.float32) / 255
    np.testing.assert_allclose(example["image"], (pixels - 0.25) / 0.5, rtol=1e-5, atol=1e-6)
    labelled = Images("made_captions", data_dir=data.data_dir, shape=data.shape, mean=(0.25,), std=(0.5,))
    np.testing.assert_array_equal(example["image"], labelled.open().example(1, 0, None)["image"])
    spec = {key: (x.shape, x.dtype) for key, x in data.spec().items() if key != "id"}
    assert {key: (array.shape, array.dtype) for key, array in example.items()} == spec


def test_each_of_the_ways_to_have_a_caption(captioned):
    first = captioned(captions="first").open()
    assert texts_of(first) == ["a red dog", "a cat", "a dog with a v", "one cat"]
    assert first.image_numbers.tolist() == [0, 1, 3, 4]
    every = captioned(captions="every").open()
    assert texts_of(every) == ["a red dog", "one dog", "a cat", "a dog with a v", "one cat", "a cat"]
    assert every.image_numbers.tolist() == [0, 0, 1, 3, 4, 4]
    random = captioned(captions="random").open()
    assert random.image_numbers.tolist() == [0, 1, 3, 4]
    draws = [texts_of(random, epoch) for epoch in range(20)]
    wanted = [{"a red dog", "one dog"}, {"a cat"}, {"a dog with a v"}, {"one cat", "a cat"}]
    assert [set(column) for column in zip(*draws, strict=True)] == wanted
    assert draws == [texts_of(random, epoch) for epoch in range(20)]
    assert draws != [texts_of(random, epoch, seed=1) for epoch in range(20)]
    assert first.texts([0, 3]) == [["a red dog", "one dog"], ["one cat", "a cat", " "]]
    assert len({source.fingerprint for source in (first, every, random)}) == 3


def test_a_caption_is_the_images_or_another_ones(captioned):
    data = MatchedCaptions(**vars(captioned()))
    source = data.open()
    plain = captioned().open()
    spec = {key: (x.shape, x.dtype) for key, x in data.spec().items() if key != "id"}
    texts = texts_of(plain)
    matched = []
    for epoch in range(40):
        for index, text in enumerate(texts_of(source, epoch)):
            example = source.example(index, epoch, example_rng(0, epoch, index))
            assert {key: (array.shape, array.dtype) for key, array in example.items()} == spec
            np.testing.assert_array_equal(example["image"], plain.example(index, 0, None)["image"])
            size = example["segments"].sum()
            assert example["weights"].tolist() == [0] + [1] * (size - 2) + [0] * (LENGTH + 1 - size)
            assert (text == texts[index]) == example["next_sentence"]
            matched.append(int(example["next_sentence"]))
    assert 60 < sum(matched) < 100  # of 160


def test_one_of_four_pairs_belongs_together(captioned):
    data = CaptionChoices(**vars(captioned()))
    source, plain = data.open(), captioned().open()
    spec = {key: (x.shape, x.dtype) for key, x in data.spec().items() if key != "id"}
    images = [plain.example(index, 0, None)["image"] for index in range(len(plain))]
    captions = texts_of(plain)
    for epoch in range(10):
        for index, caption in enumerate(captions):
            example = source.example(index, epoch, example_rng(0, epoch, index))
            assert {key: (array.shape, array.dtype) for key, array in example.items()} == spec
            assert example["label"] == 0 and example["weights"] == 1
            texts = [text_of(*row) for row in zip(example["choice_tokens"], example["choice_segments"], strict=True)]
            has_image = [np.array_equal(image, images[index]) for image in example["choice_image"]]
            assert has_image == [True, True, False, True]
            assert [text == caption for text in texts] == [True, False, True, False]


def test_a_run_that_resumes_has_the_same_captions(captioned):
    source = captioned(captions="random", transforms=(Flip(),)).open()
    batches = [*itertools.islice(train_batches(source, batch_size=3, seed=2), 8)]
    for step in (1, 5):
        again = next(train_batches(source, batch_size=3, seed=2, start_step=step))
        assert again.keys() == batches[step].keys()
        assert all(np.array_equal(again[key], batches[step][key]) for key in again)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("{caption}", ["a red dog", "a cat", "one cat"]),
        ("{words}", ["a", "a", "one"]),
        ("{label}: {caption}", ["dog: a red dog", "cat: a cat", "dog: ", "cat: ", "dog: one cat"]),
        ("{label}, {captions/text}", ["dog, a red dog", "cat, a cat", "cat, ", "dog, one cat"]),
    ],
)
def test_texts_of_other_features(captioned, text, texts):
    assert texts_of(captioned(text=text).open()) == texts


def test_what_is_left_out_is_counted(captioned, caplog):
    captioned(captions="every").open()
    assert [record.getMessage() for record in caplog.records] == [
        "made_captions train: 2 of 8 captions are empty and are left out",
        "made_captions train: 1 of 8 captions are longer than 14 tokens and lose their last tokens",
        "made_captions train: 1 of 5 images have no caption and are left out",
    ]
    caplog.clear()
    dropped = captioned(too_long="drop").open()
    assert texts_of(dropped) == ["a red dog", "a cat", "one cat"]
    assert [record.getMessage() for record in caplog.records] == [
        "made_captions train: 2 of 8 captions are empty and are left out",
        "made_captions train: 1 of 8 captions are longer than 14 tokens and are left out",
        "made_captions train: 2 of 5 images have no caption and are left out",
    ]


def test_rows_are_padded_with_the_tokenizers_own_token(captioned):
    tokenizer = Characters(specials=("[PAD]", "[CLS]", "[SEP]"))
    source = captioned(tokenizer=tokenizer, length=8).open()
    pad, cls, sep = (tokenizer.special(name) for name in tokenizer.specials)
    assert source.example(1, 0, None)["tokens"].tolist() == [cls, *tokenizer.encode("a cat"), sep, pad]


def test_a_tokenizer_is_trained_on_all_captions(captioned):
    data_dir = captioned().data_dir
    tokenizer = Trained(WordPiece(), 60, "made_captions", data_dir=data_dir, features=("captions/text",))
    ids = tokenizer.encode("one dog a cat")
    assert tokenizer.decode(ids) == "one dog a cat" and tokenizer.special("[UNK]") not in ids
    with pytest.raises(UserError, match=r"data.tokenizer.features: .*got 'captions'; did you mean .*captions/text"):
        Trained(WordPiece(), 60, "made_captions", data_dir=data_dir, features=("captions",)).check()


def test_an_image_that_cannot_be_decoded(tmp_path):
    whole = photo_set.file(photo_set.pixels(0))
    data_dir = caption_set.prepare(tmp_path, [["a dog"], ["a cat"]], [whole, whole[:60]])
    data = functools.partial(CaptionedImages, "made_captions", data_dir=data_dir, shape=caption_set.SHAPE)
    example = data(corrupt="skip").open().example(1, 0, None)
    assert example["weights"] == 0 and not example["image"].any()
    with pytest.raises(UserError, match=r"data.corrupt: expected images that can be decoded.*record 1"):
        data().open().example(1, 0, None)


def test_user_errors(captioned, tmp_path):
    for fields, message in [
        ({"text": "{captions}"}, "data.text: .*got 'captions'; did you mean .*captions/text"),
        ({"text": "{nothing}"}, "data.text: .*got 'nothing'"),
        (
            {"text": "{words} {captions/text}"},
            "data.text: expected one sequence of texts, not words and captions/text, got",
        ),
        ({"length": 2}, "data.length: expected at least 3, for the markers and a token of the text, got 2"),
        ({"image_feature": "picture"}, "data.image_feature: .*got 'picture'"),
        ({"shape": (8, 8, 3)}, r"data.shape: expected \(10, 12, 3\).*got \(8, 8, 3\)"),
        (
            {"too_long": "refuse"},
            "data.length: expected at least 29, the longest caption in made_captions train, got 16; 1 are too long; "
            'data.too_long = "cut" shortens them, "drop" leaves them out',
        ),
        ({"tokenizer": Characters()}, r"data.tokenizer.specials: expected the token \[CLS\]"),
    ]:
        with pytest.raises(UserError, match=message):
            captioned(**fields).open()
    data_dir = caption_set.prepare(tmp_path, [["x"], [" "]])
    with pytest.raises(UserError, match="data.text: expected an image with a caption that fits 3 tokens"):
        CaptionedImages(
            "made_captions", "train[1:]", data_dir, caption_set.SHAPE, text="{captions/text}", length=3
        ).open()


def test_evaluations_have_what_describes_the_training_data(captioned):
    train = captioned(captions="random", mean=(0.25,), transforms=(Flip(),))
    evals = {
        "pairs": Retrieval(data=CaptionedImages(split="test"), translations=CaptionedImages(split="test")),
        "kinds": LinearProbe(data=Images(split="test")),
    }
    run = Experiment(model=None, objective=SoftmaxContrastive(), data=train, evals=evals)
    pairs, kinds = (evaluator.data for evaluator in with_default_eval_data(run).evals.values())
    assert pairs == captioned(split="test", mean=(0.25,))
    assert kinds == Images("made_captions", "test", train.data_dir, train.shape, classes=2, mean=(0.25,))
    assert differences(pairs, train) == differences(kinds, train) == []  # images without texts have no tokenizer
    assert differences(captioned(tokenizer=Characters()), train) == ["another tokenizer than training"]


@pytest.mark.slow
def test_prepared_sets(tfds_dir):
    settings = dict(data_dir=str(tfds_dir), shape=(64, 64, 3), length=128)
    stamps = CaptionedImages("stamps", "test", **settings).open()
    assert len(stamps) == 98 and texts_of(stamps)[0] == "A kiwifruit."
    settings |= {"text": "{captions/text}"}
    emoji = {
        kind: CaptionedImages("twemoji_captions", captions=kind, **settings).open() for kind in ("random", "every")
    }
    assert {kind: len(source) for kind, source in emoji.items()} == {"random": 1150, "every": 2939}
    assert np.bincount(emoji["every"].image_numbers).max() == 3
