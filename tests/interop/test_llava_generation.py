"""An imported LLaVA answers as the reference does, and is a run on conversations."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers

from txjax import tree
from txjax.__main__ import main
from txjax.data import CenterCrop, Channels, Conversations, Resize
from txjax.decoding import Cached, Sampling
from txjax.interop import huggingface
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.models.text.decoder import llama
from txjax.nn import LayerNorm, Learned, Stack

from helpers.arrays import numbers, variables
from helpers.conversation_folder import pixels, write

pytestmark = pytest.mark.claim(
    "Transfer", "an imported LLaVA answers about several images, one and none as the reference, and by `generate`"
)

MARKER, END, NEW = 5, 2, 13


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference has warnings of its own
def test_greedy_answers_are_those_of_the_reference(tmp_path: Path) -> None:
    """Of texts with two images, none and one; the last one is shorter. Each token is read with the cache alone."""
    torch, transformers = (pytest.importorskip(m, reason="pip install '.[parity]'") for m in ("torch", "transformers"))
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 23}
    vision = {"model_type": "clip_vision_model", "hidden_size": 16, "image_size": 14, "patch_size": 7, **layers}
    text = {"model_type": "llama", "vocab_size": 37, "hidden_size": 24, **layers}
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=MARKER)
    theirs = transformers.LlavaForConditionalGeneration(config).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            scale = float("norm" in name and name.endswith("weight"))
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator) + scale)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, weights = huggingface.load(tmp_path / "theirs")

    tokens = np.random.default_rng(1).integers(6, 37, (3, 12))
    tokens[0, 1:5] = tokens[0, 6:10] = tokens[2, 5:9] = MARKER
    mask = np.ones_like(tokens)
    mask[2, :3] = 0
    images = numbers(3, 2, 14, 14, 3)
    read = images[[0, 0, 2], [0, 1, 0]].transpose(0, 3, 1, 2).copy()
    want = theirs.generate(
        input_ids=torch.from_numpy(tokens),
        attention_mask=torch.from_numpy(mask),
        pixel_values=torch.from_numpy(read),
        max_new_tokens=NEW,
        do_sample=False,
        eos_token_id=END,
        pad_token_id=END,
    ).numpy()[:, tokens.shape[1] :]
    want = np.pad(want, ((0, 0), (0, NEW - want.shape[1])), constant_values=END)

    positions = np.maximum(np.cumsum(mask, 1) - 1, 0)
    texts = {"tokens": tokens, "segments": mask, "positions": positions}
    inputs = {name: jnp.asarray(x, jnp.int32) for name, x in texts.items()} | {"images": jnp.asarray(images)}
    search = Sampling(temperature=0, end=(END,))
    answers = jax.jit(lambda v, given: search(Cached(ours), v, given, NEW, jax.random.key(0)))(weights, inputs)
    np.testing.assert_array_equal(answers, want)
    assert len({tuple(answer) for answer in want.tolist()}) == 3


def llava_folder(folder: Path, *, marked: bool = True) -> Path:
    """A Hugging Face folder of a LLaVA whose tokenizer has all bytes, and the image token if it is `marked`."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    specials = ("<s>", "</s>", "<image>") if marked else ("<s>", "</s>")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in specials])
    tower = CLIPImageTower(
        patch=2,
        width=8,
        depth=2,
        heads=2,
        positions=Learned(max_length=5),
        norm=LayerNorm(eps=1e-5),
        stack=Stack(outputs=(-2,)),
    )
    model = LLaVA.of(llama(vocab=260, width=8, depth=1, heads=2), vision=tower, image_token=258)
    weights = variables(model, tokens=jnp.zeros((1, 1), jnp.int32), image=jnp.zeros((1, 4, 4, 3)))
    huggingface.save(model, weights, folder, {"eos_token_id": 257, "bos_token_id": 256})
    tokenizer.save(str(folder / "tokenizer.json"))
    reading = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 6}, "crop_size": 4}
    pixel_statistics = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]}
    (folder / "preprocessor_config.json").write_text(json.dumps(reading | pixel_statistics))
    return folder


def test_an_import_is_a_run_on_conversations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its data are a folder that is still to be named; an export has the same files."""
    folder = llava_folder(tmp_path / "llava")
    assert main(["import", f"--from={folder}", f"--workdir={tmp_path}/run"]) == 0
    assert "not for evaluate and generate" not in capsys.readouterr().out
    data = tree.from_json(json.loads((tmp_path / "run" / "config.json").read_text())).data
    assert isinstance(data, Conversations)
    assert (data.marker, data.image_tokens, data.shape, data.most_images) == ("<image>", 4, (4, 4, 3), 1)
    assert data.transforms == (Resize(6), CenterCrop(4), Channels(3))
    assert (data.mean, data.std) == ((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    assert main(["export", f"--workdir={tmp_path}/run", f"--to={tmp_path}/again"]) == 0
    for name in ("config.json", "preprocessor_config.json", "tokenizer.json"):
        assert json.loads((tmp_path / "again" / name).read_text()) == json.loads((folder / name).read_text())
    jax.tree.map(np.testing.assert_array_equal, huggingface.load(tmp_path / "again")[1], huggingface.load(folder)[1])


def test_an_import_without_the_image_token_is_a_model_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = llava_folder(tmp_path / "llava", marked=False)
    assert main(["import", f"--from={folder}", f"--workdir={tmp_path}/run"]) == 0
    said = "not for evaluate and generate: --from: expected a tokenizer with the token 258, which stands for an image"
    assert said in capsys.readouterr().out


@pytest.mark.slow
def test_an_import_answers_about_an_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "images", {"a.png": pixels(1, 5, 7)})
    assert main(["import", f"--from={llava_folder(tmp_path / 'llava')}", f"--workdir={tmp_path}/run"]) == 0
    shared = ["generate", f"--workdir={tmp_path}/run", "--temperature=0", "--length=4", "--json", "--prompt=What?"]
    records = []
    for flags in ([f"--image={tmp_path}/images/a.png"], []):
        capsys.readouterr()
        assert main([*shared, *flags]) == 0
        records.append(json.loads(capsys.readouterr().out))
    assert [len(record["image"]) for record in records] == [1, 0]
