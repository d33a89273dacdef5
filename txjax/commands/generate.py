"""txjax generate: text from a trained decoder, from its workdir alone."""

import json
from pathlib import Path

from txjax.commands.parser import Parser

SUMMARY = "write text with a trained decoder"


def run(argv: list[str]) -> int:
    parser = Parser("generate", __doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--prompt", default="\n", help="the text to go on from")
    parser.add_argument("--length", type=int, default=256, help="tokens to write")
    parser.add_argument("--samples", type=int, default=1, help="how many texts")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 = greedy")
    parser.add_argument("--top_k", type=int, help="only the k likeliest tokens")
    parser.add_argument("--top_p", type=float, help="only the likeliest tokens that have this probability together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", default="last", help="last (default), best or a number")
    parser.add_argument(
        "--trust", action="append", default=[], help="a module outside txjax whose classes the config uses"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.backend import prepare

    prepare()
    import jax
    import jax.numpy as jnp

    from txjax import sharding
    from txjax.config import check_settings
    from txjax.eval.generate import Sampling, generate
    from txjax.train.check import check
    from txjax.train.restore import load_variables
    from txjax.train.workdir import read_config
    from txjax.types import UserError

    sampling = Sampling(flags.temperature, flags.top_k, flags.top_p)
    check_settings(sampling)
    for name in ("length", "samples"):
        if getattr(flags, name) < 1:
            raise UserError(f"--{name}", "at least 1", getattr(flags, name))
    experiment = read_config(flags.workdir, tuple(flags.trust))
    tokenizer = getattr(experiment.data, "tokenizer", None)
    if tokenizer is None or "targets" not in experiment.data.spec():
        raise UserError("--workdir", "a run of a decoder on text", type(experiment.model).__name__)
    check(experiment)
    prompt = tokenizer.encode(flags.prompt)
    if len(prompt) == 0:
        raise UserError("--prompt", "at least one token", flags.prompt)
    with sharding.use(experiment.mesh) as built:
        held, step = load_variables(flags.workdir, flags.step, experiment, built)
        given = jnp.tile(jnp.asarray(prompt, jnp.int32), (flags.samples, 1))
        write = jax.jit(lambda v, p, key: generate(experiment.model, v, p, flags.length, key, sampling))
        texts = [tokenizer.decode(row) for row in jax.device_get(write(held, given, jax.random.key(flags.seed)))]
    if flags.json:
        print(json.dumps({"step": step, "prompt": flags.prompt, "texts": texts}))
    else:
        print("\n\n".join(flags.prompt + text for text in texts))
    return 0
