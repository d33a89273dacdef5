"""Recalls of images by texts and of texts by images equal loops over all pairs; several texts, twins, ties."""

import dataclasses

import numpy as np
import pytest

from txjax.eval import ImageTextRetrieval
from txjax.eval.bootstrap_intervals import intervals, resamples
from txjax.eval.features.image_text_gallery import count_wrong_ahead
from txjax.eval.features.retrieval_pictures import caption_rows
from txjax.experiment import Experiment
from txjax.objectives import Classification, SoftmaxContrastive
from txjax.train.check import check
from txjax.types import UserError

from helpers.evaluations import IMAGES, Net, Pictures, measure
from helpers.pair_evaluations import IMAGE_NUMBERS, TABLE, TEXTS, WEIGHTS, CaptionedPictures, Towers

pytestmark = pytest.mark.claim(
    "Evaluation", "retrieval between images and texts equals loops over all pairs, with twins and several captions"
)

AT = (1, 5, 10)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def recalls():
    """By example: the hits of each image and of each text, by loops."""
    examples = np.flatnonzero(WEIGHTS)
    images = sorted(set(IMAGE_NUMBERS[examples].tolist()))
    texts_of = {image: {TEXTS[i] for i in examples if IMAGE_NUMBERS[i] == image} for image in images}
    pixels = {image: unit(IMAGES[image].reshape(-1)[:5]) for image in images}
    texts = {content: unit(TABLE[content] + TABLE[7]) for content in TEXTS}
    by_image, by_text = {}, []
    for image in images:
        order = sorted(examples, key=lambda i: -pixels[image] @ texts[TEXTS[i]])
        right = [TEXTS[i] in texts_of[image] for i in order]
        by_image[image] = [any(right[:k]) for k in AT]
    for i in examples:
        order = sorted(images, key=lambda image: -pixels[image] @ texts[TEXTS[i]])
        right = [TEXTS[i] in texts_of[image] for image in order]
        by_text.append((IMAGE_NUMBERS[i], [any(right[:k]) for k in AT]))
    twins = sum(sum(TEXTS[i] in texts for texts in texts_of.values()) > 1 for i in examples)
    return by_image, by_text, twins


def measured(results=None, **fields):
    evaluator = ImageTextRetrieval(data=CaptionedPictures(), **fields)
    return measure(Towers(), SoftmaxContrastive(), evaluator, results=results)


def wanted():
    """The scores: shares of the hits."""
    by_image, by_text, twins = recalls()
    of_images = np.mean([*by_image.values()], 0)
    of_texts = np.mean([hits for _, hits in by_text], 0)
    assert all(0 < shares[0] < shares[1] < shares[2] < 1 for shares in (of_images, of_texts)) and twins > 9
    scores = {f"image_to_text_r{k}": share for k, share in zip(AT, of_images, strict=True)}
    scores |= {f"text_to_image_r{k}": share for k, share in zip(AT, of_texts, strict=True)}
    return pytest.approx(scores | {"twins": twins})


@pytest.mark.parametrize("rows", [1024, 7])
def test_recalls_equal_loops_over_all_pairs(rows, monkeypatch):
    monkeypatch.setattr("txjax.eval.features.image_text_gallery.ROWS", rows)
    assert measured() == wanted()


@pytest.mark.mesh
def test_recalls_on_eight_devices():
    assert measured() == wanted()


def test_intervals_draw_images_with_all_of_their_texts():
    results = {}
    scores = measured(results, at=(5,))
    by_image, by_text, _ = recalls()
    rows = results["x"]
    assert rows["id"].tolist() == [*by_image]
    assert rows["image_to_text_r5"].tolist() == [hits[1] for hits in by_image.values()]
    sums = [[hits[1] for image, hits in by_text if image == number] for number in by_image]
    assert rows["text_to_image_r5"].tolist() == [sum(hits) for hits in sums]
    assert rows["text_to_image_r5_count"].tolist() == [len(hits) for hits in sums]
    evaluator = ImageTextRetrieval(data=CaptionedPictures(), at=(5,))
    assert evaluator.rescore(rows) == {name: score for name, score in scores.items() if name != "twins"}
    totals = np.array([(sum(hits), len(hits)) for hits in sums], np.float64)
    shares = [np.divide(*totals[chosen].sum(0)) for chosen in resamples(len(totals))]
    low, high = np.quantile(shares, (0.025, 0.975))
    assert intervals(evaluator.rescore, rows)["text_to_image_r5"] == pytest.approx((low, high))


@dataclasses.dataclass
class ShownPictures(CaptionedPictures):
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.1,)


def test_the_first_texts_are_shown_with_their_nearest_images(tmp_path, monkeypatch):
    captions = []

    def draw(rows):
        captions.extend(rows)
        return caption_rows(rows)

    monkeypatch.setattr("txjax.eval.features.gallery_retrieval.caption_rows", draw)
    evaluator = ImageTextRetrieval(data=ShownPictures(), shown=40)
    measure(Towers(), SoftmaxContrastive(), evaluator, folder=tmp_path)
    assert (tmp_path / "pictures" / "x" / "7.png").read_bytes().startswith(b"\x89PNG")
    examples = np.flatnonzero(WEIGHTS)
    images = sorted(set(IMAGE_NUMBERS[examples].tolist()))
    assert len(captions) == 40
    for searched, example in zip(captions, examples.tolist(), strict=False):
        text = unit(TABLE[TEXTS[example]] + TABLE[7])
        similarity = {image: unit(IMAGES[image].reshape(-1)[:5]) @ text for image in images}
        order = sorted(images, key=lambda image: -similarity[image])
        twins = [i for i in examples if TEXTS[i] == TEXTS[example]]
        is_right = {image: image in IMAGE_NUMBERS[twins] for image in images}
        assert searched.rank == 1 + [is_right[image] for image in order].index(True) and searched.images == len(images)
        np.testing.assert_allclose(searched.image, 0.5 + 0.1 * IMAGES[IMAGE_NUMBERS[example]], rtol=1e-6)
        assert [near.is_right for near in searched.nearest] == [is_right[image] for image in order[:5]]
        for near, image in zip(searched.nearest, order, strict=False):
            np.testing.assert_allclose(near.pixels, 0.5 + 0.1 * IMAGES[image], rtol=1e-6)
            np.testing.assert_allclose(near.similarity, similarity[image], rtol=1e-4, atol=1e-6)
    assert {searched.rank > 5 for searched in captions} == {True, False}


def test_what_is_as_near_as_a_right_one_and_what_is_no_number_finds_nothing():
    right = np.eye(4, dtype=bool)
    equal = np.ones((4, 4), np.float32)
    apart = np.eye(4, dtype=np.float32)
    for similarity, ahead in ((equal, 3), (equal * np.nan, 3), (apart, 0), (apart[::-1], 3)):
        counts = count_wrong_ahead(4, lambda block, of=similarity: of[block], lambda block: right[block])
        assert counts.tolist() == [ahead] * 4


def test_user_errors_before_compilation():
    def refuse(message, model, objective, data, **fields):
        evals = {"x": ImageTextRetrieval(data=data, **fields)}
        with pytest.raises(UserError, match=message):
            check(Experiment(model=model, objective=objective, data=data, evals=evals, batch_size=16))

    pairs = (Towers(), SoftmaxContrastive(), CaptionedPictures())
    refuse("config.evals.x.at: expected one or more numbers of at least 1, got .0, 5.", *pairs, at=(0, 5))
    refuse("config.evals.x.*tokens", Net(), Classification(), Pictures())

    class Plain(Net):
        def __call__(self, image, tokens=None, segments=None, train=False):
            return super().__call__(image, train)

    message = "config.model: expected a model that returns PairFeatures, such as TwoTowers, got 'Plain'"
    with pytest.raises(UserError, match=message):
        evaluator = ImageTextRetrieval(data=CaptionedPictures())
        evaluator.check(Plain(), SoftmaxContrastive(), CaptionedPictures())
