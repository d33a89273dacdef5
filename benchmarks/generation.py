"""Tokens a second of generation against transformers on the same cores: greedy, sampled and by beam search.

    python benchmarks/generation.py [--models=gpt2,t5,transformer] [--searches=greedy,sampled,beam] [--batch=8]
        [--source=32] [--length=64] [--rounds=5]

Needs torch and transformers in the same environment (`pip install '.[parity]'`). The models have the published sizes of
GPT-2, T5 small and the base Transformer, with random float32 weights; a text ends only at its full length. Each
contender runs in a process of its own and all generate in turn: txjax in one program, transformers by `generate`,
eager, with its cache.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

import contenders
import numpy as np

CONTENDERS = ("txjax", "transformers")
BEAM = 4
# Options of the searches, under the names of transformers' `generate`.
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "temperature": 0.8, "top_k": 50, "top_p": 0.95},
    "beam": {"do_sample": False, "num_beams": BEAM, "length_penalty": 1.0},
}


def ids(flags: argparse.Namespace) -> np.ndarray:
    """The prompts, or sources, [batch source]."""
    return np.random.default_rng(0).integers(3, 1000, (flags.batch, flags.source)).astype(np.int32)


def txjax_work(flags: argparse.Namespace) -> tuple[Callable[[], Any], dict[str, Any]]:
    """One batch of texts by one program."""
    from txjax.backend import jit, prepare

    prepare()
    import jax
    import jax.numpy as jnp
    from flax.core import meta

    from txjax.decoding import Cached, NormalizedBeam, Sampling, Search
    from txjax.models.text.decoder.card import gpt2
    from txjax.models.text.encoder_decoder.card import t5, transformer

    given = {"tokens": jnp.asarray(ids(flags))}
    models: dict[str, Any] = {
        "gpt2": gpt2,
        "t5": t5,
        "transformer": transformer,
    }
    sizes = {"gpt2": "124M", "t5": "small", "transformer": "base"}
    model = models[flags.models](sizes[flags.models], dropout=0.0)
    if flags.models != "gpt2":
        given = {"tokens": jnp.zeros((flags.batch, 1), jnp.int32), "source_tokens": given["tokens"]}
    variables = meta.unbox(jax.jit(lambda: model.init(jax.random.key(0, impl="rbg"), **given))())
    options = SEARCHES[flags.searches]
    search: Search = {
        "greedy": lambda: Sampling(temperature=0),
        "sampled": lambda: Sampling(*(options[name] for name in ("temperature", "top_k", "top_p"))),
        "beam": lambda: NormalizedBeam(BEAM, options["length_penalty"]),
    }[flags.searches]()
    program = jit(lambda variables, given, key: search(Cached(model), variables, given, flags.length, key))
    count = sum(x.size for x in jax.tree.leaves(variables))
    return lambda: jax.block_until_ready(program(variables, given, jax.random.key(1))), {"parameters": count}


def transformers_work(flags: argparse.Namespace) -> tuple[Callable[[], Any], dict[str, Any]]:
    """The same by `generate`."""
    import torch
    import transformers as hf

    torch.manual_seed(0)
    t5 = {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8, "vocab_size": 32128}
    sides = {f"{side}_{key}": x for side in ("encoder", "decoder") for key, x in MARIAN_SIDE.items()}
    marian = {"vocab_size": 37000, "d_model": 512, "activation_function": "relu", "scale_embedding": True, **sides}
    model = {
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config()),
        "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**t5, decoder_start_token_id=0)),
        "transformer": lambda: hf.MarianMTModel(hf.MarianConfig(**marian, decoder_start_token_id=0, pad_token_id=0)),
    }[flags.models]().eval()
    settings = hf.GenerationConfig(
        **SEARCHES[flags.searches], max_new_tokens=flags.length, pad_token_id=0, decoder_start_token_id=0
    )
    tokens = torch.tensor(ids(flags), dtype=torch.long)

    def work() -> None:
        with torch.inference_mode():
            found = model.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=settings)
        begun = flags.source if flags.models == "gpt2" else 1
        assert found.shape == (flags.batch, begun + flags.length), found.shape

    return work, {"parameters": sum(p.numel() for p in model.parameters() if p.requires_grad)}


MARIAN_SIDE = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="gpt2,t5,transformer")
    parser.add_argument("--searches", default=",".join(SEARCHES))
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--batch", type=int, default=8, help="texts")
    parser.add_argument("--source", type=int, default=32, help="tokens of a prompt or source")
    parser.add_argument("--length", type=int, default=64, help="tokens of a text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", default="wall", choices=tuple(contenders.CLOCKS))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        make = {"txjax": txjax_work, "transformers": transformers_work}[flags.worker]
        contenders.serve(lambda: make(flags), contenders.CLOCKS[flags.clock])
        return
    from txjax.log.terminal_table import table

    rows = []
    own = [sys.executable, __file__, *(f"--{name}={getattr(flags, name)}" for name in SHARED)]
    for model in flags.models.split(","):
        for search in flags.searches.split(","):
            case = [*own, f"--models={model}", f"--searches={search}"]
            commands = {contender: [*case, f"--worker={contender}"] for contender in flags.contenders.split(",")}
            found, failed = contenders.race(commands, flags.rounds, steps=1)
            for contender, error in failed.items():
                print(f"{model}, {search}: {contender} failed: {error}", file=sys.stderr)
            base = found.get("transformers") or next(iter(found.values()), {})
            for contender, seen in found.items():
                rate = flags.batch * flags.length / statistics.median(seen["seconds"])
                faster = contenders.ratio(base["seconds"], seen["seconds"])
                rows.append([model, search, contender, f"{seen['parameters']:,}", f"{rate:.0f}", f"{faster:.2f}"])
                rows[-1].append(f"{seen['first']:.1f}")
    title = (
        f"{os.cpu_count()} cores: tokens a second, {flags.batch} texts of {flags.length} tokens, {flags.rounds} rounds"
    )
    table(title, ["model", "search", "contender", "parameters", "tokens/s", "x transformers", "first s"], rows)


SHARED = ("batch", "source", "length", "clock")

if __name__ == "__main__":
    main()
