"""Zero-shot classes equal CLIP's formula; features of a run of two towers, read by evaluators of frozen features."""

import numpy as np
import pytest

from txjax.data import Bytes, CaptionedImages, Images
from txjax.eval import ImageTextRetrieval, LinearProbe, NearestNeighbours, ZeroShot
from txjax.experiment import Experiment
from txjax.models.multimodal.two_towers import TwoTowers
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.vision.vit.vit import ViT
from txjax.nn import LastToken, MeanTokens, Projected
from txjax.objectives import Classification, SoftmaxContrastive
from txjax.train.check import check
from txjax.types import UserError

from helpers import caption_set
from helpers.arrays import call, variables
from helpers.evaluations import IMAGES, LABELS, Net, Pictures, measure
from helpers.pair_evaluations import TABLE, CaptionedPictures, Towers

pytestmark = pytest.mark.claim(
    "Evaluation", "zero-shot classes equal CLIP's formula; the probe and the neighbours read the image tower"
)

NAMES = ("a", "bc", "d")
PAIRS = (Towers(), SoftmaxContrastive())


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def compare_with_the_formula(prompts):
    tokenizer = Bytes(("[CLS]", "[SEP]"))
    classes = []
    for name in NAMES:
        rows = [[256, *tokenizer.encode(prompt.format(name)), 257] for prompt in prompts]
        classes.append(unit(np.mean([unit(TABLE[row].sum(0)) for row in rows], 0)))
    predicted = (unit(IMAGES.reshape(len(IMAGES), -1)[:, :5]) @ np.stack(classes).T).argmax(1)
    labelled = LABELS >= 0
    results = {}
    evaluator = ZeroShot(data=Pictures(), prompts=prompts, names=NAMES, batch_size=8)
    scores = measure(*PAIRS, evaluator, data=CaptionedPictures(), results=results)
    assert scores == {"accuracy": pytest.approx(np.mean(predicted[labelled] == LABELS[labelled]))}
    assert results["x"]["given"].tolist() == LABELS[labelled].tolist()
    assert results["x"]["accuracy"].tolist() == (predicted == LABELS)[labelled].tolist()


@pytest.mark.parametrize("prompts", [("{}",), ("{}!", "x{}", "{}")])
def test_zero_shot_by_the_formula(prompts):
    compare_with_the_formula(prompts)


@pytest.mark.mesh
def test_zero_shot_on_eight_devices():
    compare_with_the_formula(("{}!", "x{}", "{}"))


def test_prompts_may_be_more_than_a_batch_has_room_for():
    prompts = tuple(f"{{}}{letter}" for letter in "abcdefgh")
    one, another = (
        measure(
            *PAIRS, ZeroShot(data=Pictures(), prompts=prompts, names=NAMES, batch_size=size), data=CaptionedPictures()
        )
        for size in (5, 32)
    )
    assert one == another


def test_user_errors_before_compilation():
    def refuse(message, train=None, model=PAIRS[0], objective=PAIRS[1], **fields):
        evals = {"x": ZeroShot(data=Pictures(), **{"names": NAMES, "prompts": ("{}",)} | fields)}
        data = train or CaptionedPictures()
        with pytest.raises(UserError, match=message):
            check(Experiment(model=model, objective=objective, data=data, evals=evals, batch_size=16))

    refuse(r"config.evals.x.prompts: expected texts with one \{\} each.*got 'cat'", prompts=("{}", "cat"))
    refuse(r"config.evals.x.prompts: expected texts with one \{\} each", prompts=())
    refuse("config.evals.x.names: expected the names of the classes, since the data set has none", names=None)
    refuse("config.evals.x.names: expected a name for each of the 3 classes, got '2'", names=("a", "b"))
    refuse("config.evals.x: expected a run whose training data have texts", Pictures(), Net(), Classification())
    long = ZeroShot(data=Pictures(), names=NAMES, prompts=("the {}",))
    with pytest.raises(
        UserError, match="config.evals.x.prompts: expected texts of at most 4 tokens.*got \"6 tokens of 'the bc'"
    ):
        measure(*PAIRS, long, data=CaptionedPictures())


def test_a_set_that_is_not_prepared_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    data = CaptionedImages("made_captions", shape=(4, 4, 1), length=8)
    evals = {"x": ZeroShot(data=Images(split="test"))}
    with pytest.raises(UserError, match="^config.data.name: expected a TFDS data set, got 'made_captions'") as error:
        check(Experiment(model=PAIRS[0], objective=PAIRS[1], data=data, evals=evals, batch_size=16))
    assert [error.field for error in error.value.errors] == ["config.data.name"]


@pytest.fixture(scope="module")
def captioned(tmp_path_factory):
    """A set of captioned pictures, and the fields of its data sets."""
    captions = [[f"a {kind}", f"{kind} {i}"] for i in range(12) for kind in (caption_set.KINDS[i % 2],)]
    data_dir = caption_set.prepare(tmp_path_factory.mktemp("tfds"), captions)
    return {"name": "made_captions", "data_dir": data_dir, "shape": caption_set.SHAPE}


def test_a_run_of_two_towers(captioned):
    sizes = {"width": 8, "depth": 1, "heads": 2}
    vision = ViT(patch=2, head=Projected(4, MeanTokens()), **sizes)
    model = TwoTowers(vision=vision, text=Decoder(vocab=258, head=Projected(4, LastToken()), **sizes))
    train = CaptionedImages(text="{captions/text}", length=10, captions="random", **captioned)
    images = Images(**captioned, classes=2)
    examples = [images.open().example(i, 0, None) for i in range(12)]
    pixels = np.stack([example["image"] for example in examples])
    params = variables(model, pixels[:1], np.zeros((1, 10), np.int32))
    settings = {"objective": SoftmaxContrastive(), "variables": params, "data": train, "batch_size": 12}

    def scores(evaluator):
        return measure(model, evaluation=evaluator, **settings)

    # The image tower alone, which the data say: those of the features before they have unit length.
    both = call(model.apply, params, pixels, np.zeros((12, 10), np.int32))
    alone = call(model.apply, params, pixels)
    np.testing.assert_array_equal(alone.image, both.image)
    assert alone.text is None and call(model.apply, params, tokens=np.zeros((1, 10), np.int32)).image is None
    tower = call(vision.apply, {"params": params["params"]["vision"]}, pixels)
    np.testing.assert_allclose(unit(np.asarray(tower)), alone.image, rtol=1e-5)
    assert scores(NearestNeighbours(data=images, k=1)) == {"accuracy": 1.0}  # each is its own neighbour
    probe = scores(LinearProbe(data=images, penalty=1e-6))
    assert probe["accuracy"] == probe["train_accuracy"]
    # The names of the classes, and the texts, are those of the data.
    zero_shot = scores(ZeroShot(data=images, prompts=("a {}",)))
    texts = [train.rows().row(train.tokenizer.encode(f"a {kind}")) for kind in caption_set.KINDS]
    rows = {key: np.stack([row[key] for row in texts]) for key in ("tokens", "segments")}
    classes = call(model.apply, params, **rows).text
    predicted = np.asarray(alone.image @ classes.T).argmax(1)
    labels = [example["label"] for example in examples]
    assert zero_shot == {"accuracy": pytest.approx(np.mean(predicted == labels))}
    pairs = CaptionedImages(text="{captions/text}", length=10, captions="every", **captioned)
    retrieval = scores(ImageTextRetrieval(data=pairs, at=(1, 24)))
    assert retrieval["twins"] == 12  # "a dog" and "a cat", of six images each
    assert retrieval["image_to_text_r24"] == retrieval["text_to_image_r24"] == 1.0
    assert set(retrieval) == {"twins", *(f"{way}_r{k}" for way in ("image_to_text", "text_to_image") for k in (1, 24))}
