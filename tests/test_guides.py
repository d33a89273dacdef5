"""The configs on the pages for users of other trainers are what the pages say, and train in small."""

import contextlib
import itertools
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from txjax import config
from txjax.__main__ import main
from txjax.data import train_batches
from txjax.interop import huggingface
from txjax.models.text.bert.card import distilbert
from txjax.optim import Cosine
from txjax.types import flat_paths

from helpers import runs
from helpers.arrays import shapes, variables

pytestmark = pytest.mark.claim("Documentation", "configs translated from other trainers have their numbers, and train")

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOKENS = np.zeros((1, 4), np.int32)


def write_config(page: str, path: Path) -> list[str]:
    """Writes the config of a page to a file. Returns the lines of the page's commands."""
    blocks = BLOCK.findall((DOCS / page).read_text())
    (code,) = [text for kind, text in blocks if kind == "python"]
    path.write_text(code)
    return [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]


def rates(experiment, num_steps: int, steps: list[int]) -> list[float]:
    """The learning rates of these updates of a run of `num_steps`."""
    optimizer = experiment.optimizer
    schedule = optimizer.schedule(optimizer.peak_lr, num_steps)
    return [float(schedule(step)) for step in steps]


def save_distilbert(folder: Path) -> None:
    """A folder of Hugging Face with a DistilBERT of two layers and a vocabulary of letters."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{letter}" for letter in words[5:]]
    model = distilbert(vocab=len(words), width=32, depth=2, heads=2, head=None)
    huggingface.save(model, variables(model, TOKENS), folder)
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.add_special_tokens(words[:5])
    tokenizer.save(str(folder / "tokenizer.json"))


def test_settings_of_trainer(tmp_path):
    write_config("coming_from_trainer.md", tmp_path / "reviews.py")
    path = tmp_path / "reviews.py"
    assert "num_epochs=2," in path.read_text()
    experiment = config.load(str(path), ["--config.num_epochs=None", "--config.num_steps=50"])  # without the table
    optimizer = experiment.optimizer
    assert (optimizer.peak_lr, optimizer.b1, optimizer.b2, optimizer.eps) == (2e-5, 0.9, 0.999, 1e-8)
    assert (optimizer.weight_decay, optimizer.clip) == (0.01, 1.0)
    assert experiment.batch_size == 16
    # get_linear_schedule_with_warmup of transformers, without a warmup
    steps = [0, 1, 25, 49]
    assert rates(experiment, 50, steps) == pytest.approx([2e-5 * (50 - step) / 50 for step in steps])


@pytest.mark.slow
@pytest.mark.parametrize("page", ["coming_from_trainer.md", "fine_tuning.md"])
def test_commands_for_a_published_model(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = write_config(page, Path("reviews.py"))
    save_distilbert(Path("distilbert-base-uncased"))
    words = ("a good film", "so good", "bad", "a bad film indeed")
    rows = [f"{words[i % 4]} {chr(97 + i % 26)},{'good' if i % 4 < 2 else 'bad'}" for i in range(600)]
    Path("reviews.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    small = ["--config.model.width=32", "--config.model.depth=2", "--config.model.heads=2", "--config.model.vocab=57"]
    small += ["--config.optimizer.peak_lr=1e-3", "--config.evals.valid.every_steps=10", "--config.trackers=()"]
    assert {"import", "train", "export"} <= {line.split()[1] for line in lines}
    for line in lines:
        flags = small if " train " in line else []
        assert main([*line.split()[1:], *flags]) == 0, capsys.readouterr().err
    last = runs.rows(Path("runs/reviews"))[-1]
    assert last["eval/valid/loss"] < math.log(2) - 0.03 and last["eval/valid/accuracy"] > 0.9
    exported = json.loads(Path("reviews/config.json").read_text())
    assert exported["architectures"] == ["DistilBertForSequenceClassification"]
    assert exported["id2label"] == {"0": "bad", "1": "good"}


@pytest.mark.slow
def test_losses_are_those_of_trainer(tmp_path, monkeypatch, capsys):
    """40 updates of the page's run, without dropout: Trainer gets the same weights and the same texts in each batch."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    write_config("coming_from_trainer.md", Path("reviews.py"))
    save_distilbert(Path("base"))
    no_dropout = dict.fromkeys(("dropout", "attention_dropout", "seq_classif_dropout"), 0.0)
    model = transformers.DistilBertForSequenceClassification.from_pretrained("base", num_labels=2, **no_dropout)
    model.save_pretrained("start")
    shutil.copytree("base", "distilbert-base-uncased")  # the page's tokenizer
    shutil.copy("base/tokenizer.json", "start")
    draw = np.random.default_rng(0)
    words = ("a", "good", "film", "bad", "so", "indeed", "very")
    texts = [" ".join(draw.choice(words, draw.integers(2, 9))) for _ in range(600)]
    lines = [f"{text},{'good' if i % 3 else 'bad'}" for i, text in enumerate(texts)]
    Path("reviews.csv").write_text("text,label\n" + "\n".join(lines) + "\n")

    assert main(["import", "--from=start", "--workdir=runs/start"]) == 0
    flags = ["--config.model.width=32", "--config.model.depth=2", "--config.model.heads=2", "--config.model.vocab=57"]
    flags += ["--config.model.dropout=0", "--config.model.mixer.dropout=0", "--config.optimizer.peak_lr=1e-3"]
    flags += ["--config.init_from=runs/start", "--config.init_from.omit=()", "--config.trackers=()"]
    flags += ["--config.num_epochs=None", "--config.num_steps=40", "--config.log_every_steps=1"]
    assert main(["train", "--config=reviews.py", "--workdir=runs/reviews", *flags]) == 0, capsys.readouterr().err
    ours = [row["train/loss"] for row in runs.rows(Path("runs/reviews")) if "train/loss" in row]

    experiment = config.load("reviews.py", flags)
    source = experiment.data.open()
    examples = []
    with contextlib.closing(train_batches(source, batch_size=16, seed=experiment.seed)) as batches:
        for batch in itertools.islice(batches, 40):
            fields = {"input_ids": batch["tokens"], "attention_mask": batch["segments"], "labels": batch["label"]}
            tensors = {name: torch.tensor(values).long() for name, values in fields.items()}
            examples += [{name: values[i] for name, values in tensors.items()} for i in range(16)]

    class Trainer(transformers.Trainer):
        def _get_train_sampler(self, *arguments):
            return torch.utils.data.SequentialSampler(examples)

    arguments = transformers.TrainingArguments(
        output_dir="out",
        learning_rate=1e-3,
        per_device_train_batch_size=16,
        max_steps=40,
        weight_decay=0.01,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=examples)
    trainer.train()
    theirs = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert len(ours) == 40 and ours == pytest.approx(theirs, abs=2e-6)


def test_settings_of_big_vision(root):
    experiment = config.load(str(root / "configs/vision/vit_imagenet.py"), [])
    page = (DOCS / "coming_from_big_vision.md").read_text()
    assert f"num_steps={experiment.num_steps}" in page and experiment.num_steps == round(90 * 1281167 / 1024)
    optimizer, model, data = experiment.optimizer, experiment.model, experiment.data
    assert experiment.batch_size == 1024
    assert (optimizer.peak_lr, optimizer.weight_decay, optimizer.clip) == (1e-3, 0.0001 / 0.001, 1.0)
    assert optimizer.schedule == Cosine(warmup_steps=10_000, final=0.0)
    assert (model.patch, model.width, model.depth, model.heads, model.class_token) == (16, 384, 12, 6, None)
    assert repr(data.mix) == "Mixup(alpha=0.2)" and experiment.objective.loss.label_smoothing == 0
    assert type(model.positions).__name__ == "Sinusoidal2D" and type(model.head.pool).__name__ == "MeanTokens"


def test_settings_of_maxtext(tmp_path):
    write_config("coming_from_maxtext.md", tmp_path / "llama2_7b.py")
    experiment = config.load(str(tmp_path / "llama2_7b.py"), [])
    model = experiment.model
    keys = dict(re.findall(r"^\| `(\w+)` \| ([\w.-]+) \|$", (DOCS / "coming_from_maxtext.md").read_text(), re.M))
    params = flat_paths(shapes(model, TOKENS)["params"])
    size = {path: leaf.shape for path, leaf in params.items()}
    width, layers = int(keys["base_emb_dim"]), int(keys["base_num_decoder_layers"])
    heads, kv_heads, head_size = (int(keys[k]) for k in ("base_num_query_heads", "base_num_kv_heads", "head_dim"))
    assert size["layers/block/attention/query/kernel"] == (layers, width, heads, head_size)
    assert size["layers/block/attention/key/kernel"] == (layers, width, kv_heads, head_size)
    assert size["layers/block/mlp/up/kernel"] == (layers, width, int(keys["base_mlp_dim"]))
    assert size["embed/embedding"] == (int(keys["vocab_size"]), width)
    assert keys["logits_via_embedding"] == str(not any(path.startswith("head") for path in size))
    assert model.norm.eps == float(keys["normalization_layer_epsilon"])
    assert sum(math.prod(shape) for shape in size.values()) == 6_738_415_616
    # base.yml: a warmup of a tenth of the steps, half a cosine to a tenth of the peak
    assert rates(experiment, 150_001, [14_999, 150_000]) == pytest.approx([3e-5, 3e-6], rel=1e-4)


@pytest.mark.slow
def test_maxtext_in_small(tmp_path):
    write_config("coming_from_maxtext.md", tmp_path / "llama2_7b.py")
    small = ["--config.model.width=32", "--config.model.depth=2", "--config.model.heads=2", "--config.model.vocab=256"]
    small += ["--config.data=NextTokenWindows('txjax_python_text', length=64)", "--config.batch_size=8"]
    small += ["--config.num_steps=60", "--config.optimizer.peak_lr=0.01", "--config.optimizer.schedule.warmup_steps=6"]
    small += ["--config.log_every_steps=10", "--config.trackers=()"]
    code, _, err = runs.train_here(tmp_path / "llama2_7b.py", tmp_path / "run", *small)
    assert code == 0, err
    first, *_, last = runs.rows(tmp_path / "run")
    assert last["train/loss"] < first["train/loss"] - 0.5
