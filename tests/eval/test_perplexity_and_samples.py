"""Perplexity by its formula, and the texts that a model generates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import Bytes, Characters, NextTokenWindows
from txjax.decoding import Beam, Cached, Sampling
from txjax.eval import Perplexity, Samples
from txjax.eval.text.samples import heading
from txjax.experiment import Experiment
from txjax.objectives import MaskedToken, NextToken
from txjax.train.check import check
from txjax.types import UserError

from helpers.arrays import numbers
from helpers.evaluations import Bigrams, Pictures, measure

TEXT = NextTokenWindows(name="txjax_python_text", split="validation", length=16, tokenizer=Bytes(specials=("<end>",)))
TABLE = numbers(257, 257)
HELD = {"params": {"table": jnp.asarray(TABLE)}}


@pytest.mark.parametrize("batch_size", [8, 24])
def test_perplexity(batch_size):
    evaluation = Perplexity(data=TEXT, batch_size=batch_size, max_batches=48 // batch_size)
    scores = measure(Bigrams(), NextToken(), evaluation, HELD)
    source = TEXT.open()
    rows = [source.example(i, 0, np.random.default_rng(0)) for i in range(48)]
    tokens, targets, weights = (np.stack([row[k] for row in rows]) for k in ("tokens", "targets", "weights"))
    logits = TABLE.astype(np.float64)[tokens]
    nats = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    loss = (nats * weights).sum() / weights.sum()
    expected = {"loss": loss, "perplexity": np.exp(loss), "bits_per_byte": loss / np.log(2)}
    # exp multiplies the relative error of a loss by the loss.
    tolerance = {"loss": 1e-6, "perplexity": 1e-6 * loss, "bits_per_byte": 1e-6}
    assert scores == {name: pytest.approx(value, rel=tolerance[name]) for name, value in expected.items()}


def test_bits_per_byte_counts_bytes_and_not_tokens(monkeypatch):
    """As if every byte but the space were a token of three bytes, and the space a special one."""
    sizes = np.full(257, 3, np.int32)
    sizes[ord(" ")] = 0
    few = Perplexity(data=TEXT, max_batches=2)
    plain = measure(Bigrams(), NextToken(), few, HELD)
    monkeypatch.setattr(Bytes, "token_bytes", lambda self: sizes)
    source = TEXT.open()
    rows = [source.example(i, 0, np.random.default_rng(0)) for i in range(32)]
    real = np.concatenate([row["targets"][row["weights"] > 0] for row in rows])
    assert (real == ord(" ")).sum() > 10
    expected = plain["bits_per_byte"] * len(real) / (3 * (real != ord(" ")).sum())
    assert measure(Bigrams(), NextToken(), few, HELD)["bits_per_byte"] == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr(Bytes, "token_bytes", lambda self: None)
    assert set(measure(Bigrams(), NextToken(), few, HELD)) == {"loss", "perplexity"}


def test_samples_are_what_generate_writes(tmp_path):
    sampling = Sampling(temperature=1.0, top_k=5)
    evaluation = Samples(data=TEXT, prompts=("def ", "cla"), texts=2, length=9, search=sampling)
    assert measure(Bigrams(), NextToken(), evaluation, HELD, folder=tmp_path) == {}
    written = (tmp_path / "samples" / "x" / "7.txt").read_text()
    prompt = jnp.asarray(np.tile(Bytes().encode("cla"), (2, 1)), jnp.int32)
    key = jax.random.fold_in(jax.random.key(0), 1)
    rows = jax.jit(lambda v, p: sampling(Cached(Bigrams()), v, {"tokens": p}, 9, key))(HELD, prompt)
    a, b = ("cla" + TEXT.tokenizer.decode(row) for row in jax.device_get(rows))
    assert written.startswith(heading(0, 0) + "\ndef ") and a != b
    assert written.split(heading(1, 0))[1] == f"\n{a}\n\n{heading(1, 1)}\n{b}\n"


def test_samples_are_not_written_through_a_link_out_of_the_workdir(tmp_path, caplog):
    run, outside = tmp_path / "run", tmp_path / "outside"
    (run / "samples").mkdir(parents=True)
    outside.mkdir()
    (run / "samples" / "x").symlink_to(outside)
    evaluation = Samples(data=TEXT, prompts=("a",), texts=1, length=1, search=Sampling(temperature=0))
    assert measure(Bigrams(), NextToken(), evaluation, HELD, folder=run) == {}
    assert "a link leads out of the workdir" in caplog.text and not list(outside.iterdir())


def test_greedy_samples_follow_the_table_until_their_end(tmp_path):
    ids = [ord("a")]
    for _ in range(5):
        ids.append(int(TABLE[ids[-1]].argmax()))
    for search, tokens in ((Sampling(temperature=0), ids[1:]), (Beam(1, end=(ids[4],)), ids[1:4])):
        evaluation = Samples(data=TEXT, prompts=("a",), texts=1, length=5, search=search)
        measure(Bigrams(), NextToken(), evaluation, HELD, folder=tmp_path)
        text = "a" + TEXT.tokenizer.decode(tokens)
        assert (tmp_path / "samples" / "x" / "7.txt").read_bytes() == f"{heading(0, 0)}\n{text}\n".encode()


def test_user_errors_before_compilation():
    def refuse(said, evaluation, objective, data=TEXT):
        with pytest.raises(UserError, match=said):
            check(Experiment(model=Bigrams(), objective=objective, data=data, evals={"x": evaluation}, batch_size=16))

    hidden = MaskedToken(mask_id=256, vocab=256)
    refuse("config.evals.x: expected a run that predicts the next token", Samples(data=TEXT), hidden)
    beyond = Samples(data=TEXT, search=Beam(end=(257,)))
    refuse("config.evals.x.search.end: expected tokens below 257, got 257", beyond, NextToken())
    refuse("config.evals.x.data: expected examples with id, tokens, targets", Perplexity(data=Pictures()), NextToken())
    with pytest.raises(UserError, match="config.evals.x.prompts: expected at least one token"):
        measure(Bigrams(), NextToken(), Samples(data=TEXT, prompts=("",)), {})
    with pytest.raises(UserError, match="alphabet"):
        data = NextTokenWindows(name="txjax_python_text", length=16, tokenizer=Characters())
        measure(Bigrams(), NextToken(), Samples(data=data, prompts=("é",)), {})
