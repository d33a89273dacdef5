"""ViLBERT as published (Lu et al. 2019, 3.2 and 3.3): BERT base and six connections; `:2`, `:4`, `:8` connections.

    txjax import --from=google-bert/bert-base-uncased --workdir=runs/bert
    txjax train --config=configs/multimodal/vilbert.py --workdir=runs/vilbert --config.data.name=SET \\
        --config.init_from='(From("runs/bert", here="text", resize=(First(6),)),
            From("runs/bert", here="layers/block/layer/text", there="layers/block", resize=(Last(6),)),
            From("runs/bert", here="transform", there="transform"))'

Masked tokens, masked regions, and whether a caption is the image's. SET is a set of yours with images and captions
(docs/images.md), such as the paper's Conceptual Captions; the tokenizer is that of the BERT. The paper's regions are a
detector's boxes, with its features and its probabilities of 1,601 classes; here they are the 7 x 7 cells of the image,
whose pixels are predicted. Data that has regions is read by `GivenRegions()`, and predicted as `RegionClasses()`.

Cost: 1.8e18 FLOPs for six connections, or 1.3 hours of an H100 at 40% of its 989.5 TFLOP/s.
Score: not run here. The paper gives 70.55% of VQA's questions after tuning.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, MatchedCaptions, Resize, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.multimodal.vilbert import GridRegions
from txjax.models.multimodal.vilbert.card import CONNECTIONS, vilbert
from txjax.nn import MaskedPairs, MaskedTokens, NextSentence, ProductPooler, RegionOutputs
from txjax.objectives import MaskedTextAndRegions
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh

VARIANTS = CONNECTIONS
PLANS = (("vilbert", "", "v5e:4x4", ()),)
PAIRS = 3_300_000
BATCH = 512
SIDE = 224
CELL = 32


def get_config(connections: str = "6") -> Experiment:
    tokenizer = Trained(
        algorithm=WordPiece(), size=30522, name="coco_captions", split="train", features=("captions/text",)
    )
    square = (Resize(SIDE), CenterCrop(SIDE))
    head = MaskedPairs(MaskedTokens(next_sentence=NextSentence(ProductPooler(1024))), RegionOutputs(CELL * CELL * 3))
    return Experiment(
        model=vilbert(connections, regions=GridRegions(patch=CELL), head=head, dropout=0.1, dtype="bfloat16"),
        objective=MaskedTextAndRegions(mask_id=4, vocab=30522),  # [MASK] is the fifth special of `Trained`
        data=MatchedCaptions(
            name="coco_captions",
            split="train",
            text="{captions/text}",
            captions="random",
            length=36,
            tokenizer=tokenizer,
            shape=(SIDE, SIDE, 3),
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
            transforms=square,
        ),
        evals={"valid": Evaluation(data=MatchedCaptions(split="val", transforms=square), every_steps=5000)},
        optimizer=AdamW(peak_lr=1e-4, weight_decay=0.01, schedule=Linear(warmup_steps=6500, final=0.0)),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=10 * PAIRS // BATCH,
        batch_size=BATCH,
        log_every_steps=100,
    )
