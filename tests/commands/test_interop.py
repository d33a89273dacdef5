"""`txjax import` and `txjax export`: Hugging Face folders as workdirs, and runs as Hugging Face folders."""

import json
import shutil

import jax
import numpy as np
import pytest
import tokenizers
from safetensors.numpy import load_file

from txjax import tree
from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.cli.merging import weights
from txjax.commands import export
from txjax.interop import huggingface
from txjax.interop.huggingface.companions import describe_run
from txjax.interop.peft import peft
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import gpt
from txjax.models.text.electra import Electra
from txjax.models.text.encoder_decoder import t5
from txjax.models.vision.mae import MAE
from txjax.nn import LayerNorm, Learned, TokenClasses
from txjax.nn.adapters import LoRA
from txjax.types import UserError, flat_paths

from helpers import runs
from helpers.arrays import variables

pytestmark = pytest.mark.claim(
    "Transfer",
    "adapters: the model at first, every layout, merged kernels equal to 1e-6, exported",
)

TOKENS = np.zeros((1, 4), np.int32)


def ask(capsys, *words: str) -> tuple[int, str, str]:
    code = main(list(map(str, words)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def tokenizer(path, *specials: str) -> int:
    """Writes a tokenizer.json of bytes. Returns the number of its tokens."""
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(sorted(alphabet))}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(list(specials))
    made.save(str(path))
    return made.get_vocab_size()


def equal(a, b) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Hugging Face folder of a small GPT-2 with a tokenizer and an extra key."""
    at = tmp_path_factory.mktemp("theirs") / "gpt2"
    model = gpt(vocab=260, width=8, depth=2, heads=2, max_length=16)
    huggingface.save(model, variables(model, TOKENS), at, {"bos_token_id": 3})
    tokenizer(at / "tokenizer.json")
    return at


@pytest.fixture(scope="module")
def workdir(folder, tmp_path_factory):
    at = tmp_path_factory.mktemp("runs") / "gpt2"
    assert main(["import", f"--from={folder}", f"--workdir={at}"]) == 0
    return at


def test_an_import_writes_text(workdir, capsys):
    code, out, err = ask(capsys, "generate", f"--workdir={workdir}", "--prompt=ab", "--length=3", "--json")
    assert code == 0, err
    assert json.loads(out)["step"] == 0


def test_an_import_exports_to_the_same_folder(folder, workdir, tmp_path, capsys):
    code, out, err = ask(capsys, "export", f"--workdir={workdir}", f"--to={tmp_path / 'x'}")
    assert code == 0, err
    assert {p.name for p in (tmp_path / "x").iterdir()} == {"config.json", "model.safetensors", "tokenizer.json"}
    for path in folder.iterdir():
        assert (tmp_path / "x" / path.name).read_bytes() == path.read_bytes() or path.name == "config.json"
    configs = [json.loads((at / "config.json").read_text()) for at in (folder, tmp_path / "x")]
    assert configs[0] == configs[1] and configs[0]["bos_token_id"] == 3


def test_an_adapter_on_a_folder_writes_text(folder, tmp_path, capsys):
    """Base and adapter as Hugging Face's folders: a workdir that generates, and is exported merged."""
    model, base = huggingface.load(folder)
    tuned = model.clone(adapter=LoRA(rank=2))
    params = flat_paths(variables(tuned, TOKENS)["params"]) | flat_paths(base["params"])
    peft.save(tuned, params, tmp_path / "adapter")
    words = ("import", f"--from={tmp_path / 'adapter'}", f"--base={folder}", f"--workdir={tmp_path / 'run'}")
    code, out, err = ask(capsys, *words)
    assert code == 0 and "LoRA with" in out, err
    code, out, err = ask(capsys, "generate", f"--workdir={tmp_path / 'run'}", "--prompt=ab", "--length=3", "--json")
    assert code == 0, err
    assert ask(capsys, "export", f"--workdir={tmp_path / 'run'}", f"--to={tmp_path / 'x'}")[0] == 0
    assert (tmp_path / "x" / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    _, merged = huggingface.load(tmp_path / "x")
    changed = {path for path, x in flat_paths(merged["params"]).items() if not np.array_equal(x, params[path])}
    assert changed == {f"layers/block/attention/{name}/kernel" for name in ("query", "value")}


def test_an_imported_t5_has_pairs_of_its_own_tokens(tmp_path, capsys):
    pair = {"tokens": TOKENS, "source_tokens": TOKENS}
    for name, specials in (("with", ("<pad>", "</s>")), ("without", ("<pad>",))):
        tokens = tokenizer(tmp_path / f"{name}.json", *specials)
        model = t5(vocab=tokens + 5, width=8, depth=1, heads=2)
        known = {"decoder_start_token_id": 256, "eos_token_id": 257}
        huggingface.save(model, variables(model, **pair), tmp_path / name, known)
        (tmp_path / f"{name}.json").rename(tmp_path / name / "tokenizer.json")
        code, out, err = ask(capsys, "import", f"--from={tmp_path / name}", f"--workdir={tmp_path / name}-run")
        assert code == 0, err
        assert ("a tokenizer with a token that ends a text" in out) == (name == "without")
    made = json.loads((tmp_path / "with-run" / "config.json").read_text())
    found = tree.from_json(made)
    found.data.check()
    assert found.data.start == "<pad>" and found.model.vocab == found.data.vocab() + 5
    code, _, err = ask(capsys, "export", f"--workdir={tmp_path / 'with-run'}", f"--to={tmp_path / 'again'}")
    assert code == 0, err
    configs = [json.loads((tmp_path / at / "config.json").read_text()) for at in ("with", "again")]
    assert configs[1] == {**configs[0], "pad_token_id": 256} and configs[0]["decoder_start_token_id"] == 256


CONFIG = """
from txjax.data import NextTokenWindows
from txjax.experiment import Experiment
from txjax.models.text.decoder import gpt
from txjax.objectives import NextToken
from txjax.optim import AdamW, Constant

def get_config():
    model = gpt(vocab=260, width=8, depth=2, heads=2, max_length=16)
    data = NextTokenWindows(name="txjax_python_text", length=16)
    optimizer = AdamW(schedule=Constant(warmup_steps=1))
    facts = dict(num_steps=2, batch_size=2, trackers=())
    return Experiment(model=model, objective=NextToken(), data=data, optimizer=optimizer, **facts)
"""


def start(workdir) -> list[str]:
    """Flags of a run that starts from an import, with its tokenizer."""
    path = str(workdir / "huggingface" / "tokenizer.json")
    return [f"--config.init_from={workdir}", f"--config.data.tokenizer=TokenizerFolder(path={path!r})"]


@pytest.mark.slow
def test_an_import_starts_a_run_that_is_exported(workdir, tmp_path, capsys):
    (tmp_path / "continued.py").write_text(CONFIG)
    code, _, err = runs.train_here(tmp_path / "continued.py", tmp_path / "run", *start(workdir))
    assert code == 0, err
    numbers = json.loads((tmp_path / "run" / "transfer.json").read_text())["numbers"]
    assert {action for action, count in numbers.items() if count} == {"loaded"}
    code, _, err = ask(capsys, "export", f"--workdir={tmp_path / 'run'}", f"--to={tmp_path / 'x'}")
    assert code == 0, err
    again, trained = huggingface.load(tmp_path / "x")
    far = jax.tree.map(lambda a, b: float(abs(a - b).max()), trained, variables(again, TOKENS))
    assert 0 < max(jax.tree.leaves(far)) < 0.1  # two steps of training


@pytest.mark.slow
def test_a_tuned_adapter_is_exported_inside_the_kernels(workdir, tmp_path, capsys):
    """LoRA from an import, whose parameters stay: a plain model's folder with the adapted model's outputs."""
    tuned = CONFIG.replace("max_length=16)", "max_length=16, adapter=LoRA(paths='.*'))")
    tuned = tuned.replace("steps=1))", "steps=1), peak_lr=0.1, groups=train_only('.*/lora/.*'))")
    imports = "from txjax.nn.adapters import LoRA\nfrom txjax.optim import train_only\n"
    (tmp_path / "tuned.py").write_text(imports + tuned)
    flags = [*start(workdir), "--config.model.adapter.rank=2"]
    code, _, err = runs.train_here(tmp_path / "tuned.py", tmp_path / "run", *flags)
    assert code == 0, err
    arrays = json.loads((tmp_path / "run" / "transfer.json").read_text())["arrays"]
    assert all(row["action"] == ("new" if "/lora/" in row["path"] else "loaded") for row in arrays)
    code, _, err = ask(capsys, "export", f"--workdir={tmp_path / 'run'}", f"--to={tmp_path / 'x'}")
    assert code == 0, err
    plain, merged = huggingface.load(tmp_path / "x")
    adapted = plain.clone(adapter=LoRA(paths=".*", rank=2))
    trained, imported = (weights(Store(at), step) for at, step in ((tmp_path / "run", 2), (workdir, 0)))
    tokens = jax.numpy.arange(8).reshape(1, 8)

    @jax.jit
    def logits(trained, merged, imported):
        calls = ((adapted, trained), (plain, merged), (plain, imported))
        return [model.apply(variables, tokens).dense() for model, variables in calls]

    wanted, found, before = logits(trained, merged, imported)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert abs(wanted - before).max() > 1e-2


def test_a_model_alone(tmp_path, capsys):
    """Without a tokenizer the run can't be evaluated, but init_from and export work."""
    small = {"patch": 2, "width": 8, "depth": 1, "heads": 2, "norm": LayerNorm(eps=1e-12), "image_size": (4, 6)}
    model = MAE(**small, decoder_width=4, decoder_depth=1, decoder_heads=1)
    original = variables(model, np.zeros((1, 4, 6, 1), np.float32))
    huggingface.save(model, original, tmp_path / "in", {"mask_ratio": 0.5})
    code, _, err = ask(capsys, "import", f"--from={tmp_path / 'in'}", f"--workdir={tmp_path / 'w'}")
    assert code == 0, err
    code, _, err = ask(capsys, "evaluate", f"--workdir={tmp_path / 'w'}")
    assert code == 2 and "a model alone" in err
    assert ask(capsys, "export", f"--workdir={tmp_path / 'w'}", f"--to={tmp_path / 'out'}")[0] == 0
    equal(huggingface.load(tmp_path / "out")[1], original)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["mask_ratio"] == 0.5


def test_an_electra_stays_one(tmp_path, capsys):
    """Its embeddings are as wide as its layers, so it is what a BERT is, too; the adapter has the base's names."""
    sizes = {"vocab": 11, "width": 6, "depth": 1, "heads": 2, "positions": Learned(max_length=7)}
    model = Bert(**sizes, head=TokenClasses(3), norm=LayerNorm(eps=1e-12))
    params = variables(model, TOKENS)
    huggingface.save(model, params, tmp_path / "base", {"model_type": "electra"})

    def export_of(run: str, *flags: str) -> tuple[str, list[str]]:
        to = tmp_path / "-".join((run, "export", *(flag.strip("-") for flag in flags)))
        code, _, err = ask(capsys, "export", f"--workdir={tmp_path / run}", f"--to={to}", *flags)
        if code:
            return err, []
        names = sorted(name for path in to.glob("*.safetensors") for name in load_file(path))
        return json.loads(next(to.glob("*config.json")).read_text()).get("model_type", ""), names

    code, _, err = ask(capsys, "import", f"--from={tmp_path / 'base'}", f"--workdir={tmp_path / 'run'}")
    assert code == 0, err
    name, tensors = export_of("run")
    assert name == "electra" and "electra.embeddings.LayerNorm.bias" in tensors
    name, tensors = export_of("run", "--family=bert")
    assert name == "bert" and "bert.embeddings.LayerNorm.bias" in tensors
    message, _ = export_of("run", "--family=albert")
    assert "--family: expected one that has this model, electra or bert, got 'albert'" in message

    tuned = model.clone(adapter=LoRA(rank=2))
    adapted = flat_paths(variables(tuned, TOKENS)["params"]) | flat_paths(params["params"])
    peft.save(tuned, adapted, tmp_path / "adapter", origin="electra")
    words = (
        "import",
        f"--from={tmp_path / 'adapter'}",
        f"--base={tmp_path / 'base'}",
        f"--workdir={tmp_path / 'tuned'}",
    )
    code, _, err = ask(capsys, *words)
    assert code == 0, err
    names = [name for name in export_of("tuned", "--adapter")[1] if "lora" in name]
    assert len(names) == 4 and all(name.startswith("base_model.model.electra.encoder.layer.0.") for name in names)


def test_bert_is_evaluated(tmp_path, capsys):
    size = tokenizer(tmp_path / "tokenizer.json", "[CLS]", "[SEP]", "[MASK]")
    model = Bert(vocab=size, width=8, depth=1, heads=2, positions=Learned(max_length=12))
    huggingface.save(model, variables(model, TOKENS), tmp_path)
    code, _, err = ask(capsys, "import", f"--from={tmp_path}", f"--workdir={tmp_path / 'w'}")
    assert code == 0, err
    code, out, err = ask(capsys, "evaluate", f"--workdir={tmp_path / 'w'}", "--json")
    assert code == 0, err
    assert np.isfinite(json.loads(out)["eval/valid/loss"])


BY_NAME = (
    "got 'no such folder'; `hf download owner/its-name_2.0 --local-dir FOLDER` downloads a name of the hub; then give "
    "FOLDER\n"
)
DOWNLOAD = f"owner/its-name_2.0: expected a folder with config.json, {BY_NAME}"
ADAPTER = f"owner/its-name_2.0: expected a folder with adapter_config.json, {BY_NAME}"


def test_mistakes_are_one_line(folder, workdir, tmp_path, capsys):
    for words, said in (
        (("import", f"--from={tmp_path}", f"--workdir={tmp_path / 'w'}"), "a folder with config.json"),
        (("import", "--from=owner/its-name_2.0", f"--workdir={tmp_path / 'w'}"), DOWNLOAD),
        (("import", f"--from={folder}", "--base=owner/its-name_2.0", f"--workdir={tmp_path / 'w'}"), DOWNLOAD),
        (("import", "--from=owner/its-name_2.0", f"--base={folder}", f"--workdir={tmp_path / 'w'}"), ADAPTER),
        (
            ("import", f"--from={tmp_path / 'nowhere'}", f"--workdir={tmp_path / 'w'}"),
            "config.json, got 'no such folder'\n",
        ),
        (("import", f"--from={folder}", f"--workdir={workdir}"), "a new folder"),
        (("export", f"--workdir={tmp_path}", f"--to={tmp_path / 'x'}"), "the folder of a run"),
        (("export", f"--workdir={workdir}", f"--to={folder}"), "a new folder"),
        (("export", f"--workdir={workdir}", f"--to={tmp_path / 'x'}", "--step=9"), "--step"),
    ):
        code, _, err = ask(capsys, *words)
        assert code == 2 and said in err and len(err.splitlines()) == 1


def test_the_exported_model_has_image_size_and_mask_ratio():
    from txjax import config

    model, facts = describe_run(config.load("configs/vision/mae_digits.py", []), {})
    assert model.image_size == (8, 8) and facts == {"mask_ratio": 0.75, "norm_pix_loss": True}


def test_a_part_is_chosen_of_a_model_that_has_several_encoders() -> None:
    sizes = {"vocab": 9, "width": 4, "depth": 1, "heads": 1}
    model = Electra(generator=Bert(**sizes), discriminator=Bert(**sizes))
    found, kept = export.chosen_encoder(model, {"params": {"embed": 1, "generator": {"layers": 2}}}, "generator")
    assert found is model.generator and kept == {"params": {"embed": 1, "layers": 2}}
    with pytest.raises(UserError, match="--part: expected generator or discriminator"):
        export.chosen_encoder(model, {"params": {}}, None)
    with pytest.raises(UserError, match="--part: expected no part .*Bert.*, got 'generator'"):
        export.chosen_encoder(model.generator, {"params": {}}, "generator")


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [True, False], ids=["run", "model alone"])
def test_an_imported_folder_is_quantized_and_exported(folder, tmp_path, tokens) -> None:
    """Exported are the rounded kernels as float32."""
    source = shutil.copytree(folder, tmp_path / "theirs")
    if not tokens:
        (source / "tokenizer.json").unlink()
    for words in (
        ("import", f"--from={source}", f"--workdir={tmp_path / 'run'}"),
        (
            "quantize",
            f"--workdir={tmp_path / 'run'}",
            f"--to={tmp_path / 'int8'}",
            "--storage=QuantizedKernels('int8')",
        ),
        ("export", f"--workdir={tmp_path / 'int8'}", f"--to={tmp_path / 'again'}"),
    ):
        code, _, err = runs.command(*words)
        assert code == 0, err
    (_, before), (_, after) = (huggingface.load(each) for each in (source, tmp_path / "again"))
    before, after = flat_paths(before), flat_paths(after)
    assert before.keys() == after.keys()
    for path, x in before.items():
        rounded = path.endswith("kernel")
        np.testing.assert_allclose(after[path], x, atol=np.abs(x).max() / 254 if rounded else 0, err_msg=path)
        assert rounded == bool((after[path] != x).any()), path
