"""A small ViLBERT of stamps and their captions, pretrained on them (Lu et al. 2019, 3.2), then tuned to retrieve (3.3).

    txjax train --config=configs/multimodal/vilbert_captions.py --workdir=runs/vilbert_captions
    txjax train --config=configs/multimodal/vilbert_captions.py:retrieval --workdir=runs/vilbert_retrieval \\
        --config.init_from.run=runs/vilbert_captions

Pretraining fills in masked tokens and masked cells of the picture, and says whether a caption is the picture's. Tuning
chooses among four pairs, of which three have another picture or another caption. Both search by the score of each of
the 98 held-out pictures with each of their captions, of which none is in the training set.

The data is the prepared set `stamps`, in TFDS_DATA_DIR or `--config.data.data_dir`: 505 pairs to train on. By chance
R@10 is 0.10; the captions of the five nearest training pictures by pixels have 0.265.

Cost: 2,000 updates of 32 pairs, then 1,000 of 16 times four pairs.
Score: image_to_text_r10 0.235 and text_to_image_r10 0.255 without tuning, 0.235 and 0.265 with it (one seed): above
chance, and as the captions of the nearest pictures. Two towers reach 0.378 (`clip_captions.py`).
"""

from typing import Any

from txjax.data import CaptionChoices, CaptionedImages, Flip, MatchedCaptions, PadCrop, Trained, WordPiece
from txjax.eval import CrossRetrieval
from txjax.experiment import Experiment
from txjax.models.multimodal.vilbert import GridRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.nn import (
    Classes,
    Learned,
    MaskedPairs,
    MaskedTokens,
    NextSentence,
    PreNorm,
    ProductPooler,
    RegionOutputs,
)
from txjax.objectives import MaskedTextAndRegions, MultipleChoice
from txjax.optim import AdamW, Cosine
from txjax.transfer import From

VARIANTS = ("retrieval",)
LENGTH = 24
VOCAB = 1000
CELL = 8


def get_config(task: str = "") -> Experiment:
    sizes: dict[str, Any] = {"width": 96, "heads": 4, "block": PreNorm(), "dropout": 0.1}
    pool = ProductPooler(96)
    captions: dict[str, Any] = dict(
        name="stamps",
        split="train",
        length=LENGTH,
        tokenizer=Trained(algorithm=WordPiece(), size=VOCAB, name="stamps", split="train", features=("caption",)),
        shape=(64, 64, 3),
        transforms=(PadCrop(8), Flip()),
    )
    of_pretraining = MaskedPairs(MaskedTokens(next_sentence=NextSentence(pool)), RegionOutputs(CELL * CELL * 3))
    tuned = task == "retrieval"
    steps = 1000 if tuned else 2000
    return Experiment(
        model=ViLBERT(
            text=Bert(vocab=VOCAB, depth=1, positions=Learned(max_length=LENGTH), head=None, **sizes),
            regions=GridRegions(patch=CELL),
            depth=3,
            head=Classes(1, pool) if tuned else of_pretraining,
            **sizes,
        ),
        objective=MultipleChoice() if tuned else MaskedTextAndRegions(mask_id=4, vocab=VOCAB),
        data=CaptionChoices(**captions) if tuned else MatchedCaptions(**captions),
        evals={"pairs": CrossRetrieval(data=CaptionedImages(split="test"), every_steps=steps // 4, batch_size=98)},
        optimizer=AdamW(peak_lr=5e-4, weight_decay=0.1, schedule=Cosine(warmup_steps=100, final=0.0)),
        init_from=From(omit=("head",)) if tuned else None,
        num_steps=steps,
        batch_size=16 if tuned else 32,
        log_every_steps=50,
    )
