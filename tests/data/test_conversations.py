"""Conversations about images: tokens of images, learned answers, several images and none, records that are unusable."""

import itertools

import numpy as np
import pytest

from txjax.data import Bytes, Conversations, PadSquare, PlainTemplate, Stretch, eval_batches, train_batches
from txjax.data.keys import check_spec
from txjax.types import UserError

from helpers.conversation_folder import entry, pixels, write

pytestmark = pytest.mark.claim(
    "Data",
    "conversations: answers alone are learned, several images and none in a batch, batches of like "
    "length; unusable records are named, or left out and counted",
)

IMAGE, END = 256, 257
SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)
ENTRIES = [
    entry("<image>\nWhat?", "A cat.", "And?", "No.", image="a.png"),
    entry("Hi.", "Hello."),
    entry("<image> or <image>?", "Both.", image=["b.png", "a.png"]),
]
IMAGES = {"a.png": pixels(1), "b.png": pixels(2)}


def conversations(data_dir: str, **fields) -> Conversations:
    small = dict(image_tokens=3, length=260, shape=(4, 4, 3), mean=(0.0,), std=(1.0,))
    return Conversations(source=data_dir, **small | fields)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return write(tmp_path_factory.mktemp("talk"), IMAGES, train=ENTRIES)


def example(source, number):
    return source.example(number, 0, np.random.default_rng(0))


def ids(text: str) -> list[int]:
    """The tokens of a text, with `#` for a patch and `/` for the end."""
    return [{"#": IMAGE, "/": END}.get(letter, ord(letter)) for letter in text]


def test_answers_are_learned_and_images_have_their_tokens(folder):
    data = conversations(folder, most_images=2)
    check_spec("Conversations", data.spec(), {})
    source = data.open()
    answered = [
        ("USER: ###\nWhat? ASSISTANT:", " A cat./", "USER: And? ASSISTANT:", " No./"),
        ("USER: Hi. ASSISTANT:", " Hello./"),
        ("USER: ### or ###? ASSISTANT:", " Both./"),
    ]
    for number, (first, *others) in enumerate(answered):
        texts = [f"{SYSTEM} {first}", *others]
        whole = ids("".join(texts))
        learned = [float(part % 2) for part, text in enumerate(texts) for _ in text]
        row = example(source, number)
        size = len(whole) - 1
        padding = [0] * (260 - size)
        assert row["tokens"].tolist() == whole[:-1] + padding
        assert row["targets"].tolist() == whole[1:] + padding
        assert row["weights"].tolist() == learned[1:] + padding
        assert row["segments"].tolist() == [1] * size + padding
    assert not example(source, 1)["images"].any() and not example(source, 0)["images"][1].any()
    both = np.stack([pixels(2), pixels(1)]) / 255
    np.testing.assert_allclose(example(source, 2)["images"], both, atol=1e-6)


def test_one_image_and_the_caption_alone(tmp_path):
    data_dir = write(tmp_path, IMAGES, train=[entry("Describe.\n<image>", "A cat.", image="a.png")])
    row = example(conversations(data_dir, template=PlainTemplate(), length=12).open(), 0)
    assert row["tokens"].tolist() == [*ids("###A cat."), 0, 0, 0]
    assert row["targets"].tolist() == [*ids("##A cat.\n"), 0, 0, 0]
    assert row["weights"].tolist() == [0.0] * 2 + [1.0] * 7 + [0.0] * 3
    np.testing.assert_allclose(row["image"], pixels(1) / 255, atol=1e-6)


def test_images_are_padded_to_a_square_and_normalised(tmp_path):
    data_dir = write(tmp_path, {"a.png": pixels(1, 2, 4)}, train=[entry("<image>", "One.", image="a.png")])
    transforms = (PadSquare((0.5,)), Stretch(4))
    row = example(conversations(data_dir, transforms=transforms, mean=(0.5,), std=(0.25,)).open(), 0)
    np.testing.assert_allclose(row["image"][1:3], (pixels(1, 2, 4) / 255 - 0.5) / 0.25, atol=1e-5)
    np.testing.assert_allclose(row["image"][[0, 3]], (127 / 255 - 0.5) / 0.25, atol=1e-5)


def test_names_of_special_tokens_in_texts_are_text(tmp_path):
    data_dir = write(tmp_path, {}, train=[entry("Is </s> an end?", "</s> is.")])
    row = example(conversations(data_dir).open(), 0)
    assert row["targets"][row["weights"] > 0].tolist() == [*b" </s> is.", END]


def test_batches_of_texts_of_like_length(tmp_path):
    """Texts without an image are in batches with each other, which are cut to a short bucket."""
    entries = [entry("Hi.", "Hello."), entry("<image>\nWhat?", "A cat.", image="a.png")] * 4
    data_dir = write(tmp_path, IMAGES, train=entries)
    data = conversations(data_dir, image_tokens=60, buckets=(190,), sort_batches=4)
    batches = list(itertools.islice(train_batches(data.open(), batch_size=2, seed=0), 4))
    lengths = sorted(batch["tokens"].shape[1] for batch in batches)
    assert lengths == [190, 190, 260, 260]
    for batch in batches:
        has_image = (batch["tokens"] == IMAGE).sum(1)
        assert has_image.tolist() == ([0, 0] if batch["tokens"].shape[1] == 190 else [60, 60])
        assert batch["image"].shape == (2, 4, 4, 3)
        assert batch["image"].any((1, 2, 3)).tolist() == (has_image > 0).tolist()


FAULTS = [
    (entry("Hi.", "Hello.", image="a.png"), "0 markers <image> and 1 image'"),
    (entry("<image> <image>", "Both.", image="a.png"), "2 markers <image> and 1 image'"),
    (entry("<image>", "One."), "1 marker <image> and 0 images'"),
    (entry("<image><image>", "Two.", image=["a.png", "a.png"]), "2 images, more than data.most_images = 1"),
    (entry("Hi.", " "), "answer 1 is empty"),
    (entry("Hi.", "<image>", image="a.png"), "answer 1 has the marker <image>"),
    (entry("Hi."), "the last message has no answer"),
    (entry("<image>", "One.", image="none.png"), "none.png: the file is missing or empty"),
]


@pytest.mark.parametrize(("unusable", "fault"), FAULTS)
def test_a_record_that_is_unusable(tmp_path, caplog, unusable, fault):
    data_dir = write(tmp_path, IMAGES, train=[entry("Hi.", "Hello."), unusable])
    said = f"data.unusable: expected usable conversations, got '.*train.json: entry 2: {fault}"
    with pytest.raises(UserError, match=said):
        conversations(data_dir).open()
    source = conversations(data_dir, unusable="skip").open()
    assert len(source) == 1 and f"1 of 2 records are unusable and left out, the first: {data_dir}" in caplog.text
    assert fault.strip("'") in caplog.text


def test_a_damaged_image(tmp_path, caplog):
    entries = [entry("<image>", "One.", image="a.png"), entry("<image>", "Two.", image="b.png")]
    data_dir = write(tmp_path, IMAGES, train=entries)
    (tmp_path / "b.png").write_bytes((tmp_path / "b.png").read_bytes()[:40])
    with pytest.raises(UserError, match=r"data.unusable: .*train.json: entry 2: b.png: .*\"skip\" as data.unusable"):
        example(conversations(data_dir).open(), 1)
    source = conversations(data_dir, unusable="skip").open()
    assert not any(x.any() for x in example(source, 1).values())
    assert "is left out (1 so far): b.png: " in caplog.text
    assert [int(n) for b in eval_batches(source, batch_size=2) for n in b["weights"].any(1)] == [1, 0]


def test_conversations_that_are_too_long(folder, tmp_path, caplog):
    size = len(SYSTEM) + len(" USER: Hi. ASSISTANT: Hello.")
    with pytest.raises(
        UserError, match=f"data.too_long: expected records of at most length = {size} tokens, got '2 of"
    ):
        conversations(folder, most_images=2, length=size).open()
    dropped = conversations(folder, most_images=2, length=size, too_long="drop").open()
    assert len(dropped) == 1 and "2 of 3 records are longer than" in caplog.text
    assert dropped.texts(np.arange(1)) == [("Hi.", "Hello.")]
    cut = conversations(folder, most_images=2, length=size + 4, too_long="cut").open()
    assert len(cut) == 3 and "lose their last tokens" in caplog.text
    row = example(cut, 0)
    assert bytes(row["targets"][row["weights"] > 0].tolist()) == b" A cat"
    with pytest.raises(UserError, match="entry 1: no place for its answer in length = 90 tokens"):
        conversations(folder, most_images=2, length=90, too_long="cut").open()
    empty = conversations(folder, most_images=2, length=90, too_long="cut", unusable="skip")
    with pytest.raises(UserError, match="at least one conversation with place for its answer"):
        empty.open()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tokenizer": Bytes(specials=("</s>",))}, "data.tokenizer.specials: expected the token <image> among them"),
        ({"marker": "[IMAGE]"}, r"the token \[IMAGE\] among them"),
        ({"tokenizer": Bytes(specials=("<image>",))}, "data.template.end: expected the name of a special token"),
        ({"length": 3}, "data.length: expected more than data.image_tokens = 3, .* got 3"),
        ({"buckets": (300,)}, "data.buckets: expected ascending lengths"),
        ({"sort_batches": 2}, "data.buckets: expected lengths, if sort_batches is above 1"),
        ({"mean": (0.1, 0.2)}, "data.mean: expected 1 or 3 numbers"),
        ({"transforms": (PadSquare((2.0,)),)}, "PadSquare.color"),
        ({"image_feature": "image"}, "data.image_feature: .* did you mean images"),
        ({"image_feature": "files"}, "data.image_feature: expected a feature of kind Image"),
    ],
)
def test_user_errors(folder, fields, said):
    with pytest.raises(UserError, match=said):
        conversations(folder, **fields).check()
