"""txjax generate: text from a trained decoder, from its workdir alone."""

import json

from txjax.commands.opened import opened, parser, read

SUMMARY = "write text with a trained decoder"


def run(argv: list[str]) -> int:
    asked = parser("generate", __doc__)
    asked.add_argument("--prompt", default="\n", help="the text to go on from")
    asked.add_argument("--length", type=int, default=256, help="tokens to write")
    asked.add_argument("--samples", type=int, default=1, help="how many texts")
    asked.add_argument("--temperature", type=float, default=0.8, help="0 = greedy")
    asked.add_argument("--top_k", type=int, help="only the k likeliest tokens")
    asked.add_argument("--top_p", type=float, help="only the likeliest tokens that have this probability together")
    asked.add_argument("--seed", type=int, default=0)
    flags = asked.parse_args(argv)

    import jax
    import jax.numpy as jnp

    from txjax.eval.generate import Sampling, generate
    from txjax.tree import check_settings
    from txjax.types import UserError

    sampling = Sampling(flags.temperature, flags.top_k, flags.top_p)
    check_settings(sampling, "--")
    for name in ("length", "samples"):
        if getattr(flags, name) < 1:
            raise UserError(f"--{name}", "at least 1", getattr(flags, name))
    experiment = read(flags)
    tokenizer = getattr(experiment.data, "tokenizer", None)
    if tokenizer is None or "targets" not in experiment.data.spec():
        raise UserError("--workdir", "a run of a decoder on text", type(experiment.model).__name__)
    prompt = tokenizer.encode(flags.prompt)
    if len(prompt) == 0:
        raise UserError("--prompt", "at least one token", flags.prompt)
    with opened(flags, experiment) as found:
        given = jnp.tile(jnp.asarray(prompt, jnp.int32), (flags.samples, 1))
        write = jax.jit(lambda v, p, key: generate(experiment.model, v, p, flags.length, key, sampling))
        tokens = jax.device_get(write(found.variables, given, jax.random.key(flags.seed)))
    texts = [tokenizer.decode(row) for row in tokens]
    if flags.json:
        print(json.dumps({"step": found.step, "prompt": flags.prompt, "texts": texts}))
    else:
        print("\n\n".join(flags.prompt + text for text in texts))
    return 0
