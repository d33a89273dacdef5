"""Plans of full-size models for slices of TPU pods, as rows of docs/plan.md. Needs 'txjax[plan]', no TPU.

    python benchmarks/plans.py [--only=llama]

Every row is one `txjax plan --json` in its own process; some compile for minutes.
"""

import argparse
import json
import subprocess
import sys

REMAT = "--config.model.stack.remat={}".format
# FSDP over a part of the devices of v5p:4x4x4 and v5p:8x8x8: over all of them XLA gathers by sums (2.0 of the least).
RUNS = {
    "vit-h/14": (
        "configs/vision/vit_imagenet.py:huge",
        {
            "v5e:16x16": ["--config.mesh.data=16", "--config.mesh.fsdp=16"],
            "v5p:4x4x4": ["--config.mesh.data=4", "--config.mesh.fsdp=16"],
        },
    ),
    # Dropout of the attention weights rules out the kernel; later recipes do without (Portes et al. 2023).
    "bert-large": (
        "configs/text/bert_base.py:large-512",
        {
            slice_: ["--config.model.attention.dropout=0", "--config.batch_size=4096", "--config.mesh.data=-1"]
            for slice_ in ("v5e:16x16", "v5p:4x4x4")
        },
    ),
    "roberta-large": (
        "configs/text/roberta.py:large",
        {"v5p:4x4x4": ["--config.model.attention.dropout=0", "--config.microbatches=4"]},
    ),
    "distilbert": (
        "configs/text/distilbert.py",
        {"v5e:4x4": ["--config.model.attention.dropout=0", "--config.microbatches=16"]},
    ),
    "albert-xxlarge": ("configs/text/albert.py:xxlarge", {"v5p:4x4x4": ["--config.microbatches=8"]}),
    "gpt2-1.5b": (
        "configs/text/gpt2.py:1.5B",
        {
            "v5e:16x16": ["--config.batch_size=512", "--config.mesh.data=32", "--config.mesh.fsdp=8"],
            "v5p:4x4x4": ["--config.batch_size=512", "--config.mesh.data=8", "--config.mesh.fsdp=8"],
        },
    ),
    "llama-7b": (
        "configs/text/llama.py:7B",
        {
            "v5e:16x16": ["--config.mesh.data=8", "--config.mesh.fsdp=32", "--config.microbatches=8", REMAT("full")],
            "v5p:4x4x4": ["--config.mesh.data=2", "--config.mesh.fsdp=32", "--config.microbatches=4", REMAT("full")],
        },
    ),
    "llama-65b": (
        "configs/text/llama.py:65B",
        {"v5p:4x4x4": ["--config.mesh.fsdp=32", "--config.mesh.tensor=2", "--config.microbatches=64"]},
    ),
    "llama3-405b": (
        "configs/text/llama3.py:405B",
        {"v5p:8x8x8": ["--config.mesh.fsdp=64", "--config.mesh.tensor=8", "--config.microbatches=32"]},
    ),
    # 1,600 windows are 64 times 25, so tensor parallelism takes the other factor of 8, which the vocabulary lacks.
    "gpt3-175b": (
        "configs/text/gpt3.py:175B",
        {
            "v5p:8x8x8": [
                "--config.mesh.fsdp=64",
                "--config.mesh.tensor=8",
                "--config.mesh.rules={'vocab': ()}",
                "--config.microbatches=25",
            ]
        },
    ),
    "gpt-neo-2.7b": (
        "configs/text/gpt_neo.py:2.7B",
        {"v5e:16x16": ["--config.mesh.data=8", "--config.mesh.fsdp=32", "--config.microbatches=2"]},
    ),
    **{
        f"gpt2-1.5b-{name}": (
            "configs/text/gpt2.py:1.5B",
            {
                "v5e:16x16": [
                    "--config.batch_size=512",
                    "--config.mesh.data=32",
                    "--config.mesh.fsdp=8",
                    f"--config.model.attention={attention}",
                ]
            },
        )
        for name, attention in (
            ("linear", "LinearAttention(use_bias=False)"),
            ("favor", "LinearAttention(use_bias=False, features=FavorPlus(features=128))"),
        )
    },
    "roformer": ("configs/text/roformer.py", {"v5e:4x4": ["--config.model.attention.dropout=0"]}),
    "xlm": ("configs/text/xlm.py", {"v5p:4x4x4": ["--config.model.attention.dropout=0"]}),
    "transformer-base": ("configs/text/transformer_base.py", {"v5e:2x4": []}),
    "transformer-big": ("configs/text/transformer_base.py:big", {"v5e:2x4": []}),
    # A bias of the scores rules out the kernel.
    **{
        f"t5-{size}": (
            f"configs/text/t5.py:{size}",
            {"v5p:4x4x4": ["--config.mesh.data=2", "--config.mesh.fsdp=32", "--config.microbatches=4"]},
        )
        for size in ("11B", "v1_1-xxl")
    },
    # Dropout of the attention weights is left out, as for BERT.
    "electra-large": (
        "configs/text/electra.py:large",
        {"v5p:4x4x4": [f"--config.model.{part}.attention.dropout=0" for part in ("generator", "discriminator")]},
    ),
    # A bias of the scores rules out the kernel.
    "deberta-xlarge": (
        "configs/text/deberta.py:xlarge",
        {"v5p:4x4x4": ["--config.mesh.data=8", "--config.mesh.fsdp=8"]},
    ),
    "deberta-v3-large": (
        "configs/text/deberta.py:v3-large",
        {"v5p:4x4x4": ["--config.mesh.data=2", "--config.mesh.fsdp=32", "--config.microbatches=8"]},
    ),
    # Batch normalization takes its statistics of the whole batch, over all devices.
    **{
        name: (f"configs/vision/backbones_imagenet.py:{name}", {"v5e:16x16": ["--config.mesh.data=-1"]})
        for name in ("swin-L", "convnext-XL", "poolformer-M48", "cvt-W24")
    },
    "replknet-XL": (
        "configs/vision/backbones_imagenet.py:replknet-XL",
        {"v5e:16x16": ["--config.mesh.data=64", "--config.mesh.fsdp=4"]},
    ),
    "maxvit-XL": (
        "configs/vision/backbones_imagenet.py:maxvit-XL",
        {"v5p:4x4x4": ["--config.mesh.data=-1", "--config.microbatches=2"]},
    ),
    "bit-R152x4": (
        "configs/vision/bit_imagenet.py:R152x4",
        {"v5p:4x4x4": ["--config.mesh.data=-1", "--config.microbatches=4"]},
    ),
    "mae-h/14": (
        "configs/vision/mae_imagenet.py:huge",
        {"v5e:16x16": ["--config.mesh.data=64", "--config.mesh.fsdp=4"]},
    ),
    "detr-R101": ("configs/vision/detr.py:R101", {"v5e:8x8": ["--config.mesh.data=-1"]}),
    "sam-H": (
        "configs/vision/sam.py:H",
        {"v5p:4x4x4": ["--config.mesh.data=-1", "--config.microbatches=4", REMAT("full")]},
    ),
    # Dropout of the attention weights is left out, as for BERT.
    "maskgit-512": (
        "configs/vision/maskgit_imagenet.py:512",
        {"v5e:8x8": ["--config.mesh.data=-1", "--config.model.attention.dropout=0"]},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the model's name")
    parser.add_argument("--slice", default="", help="a part of the slice's name")
    flags = parser.parse_args()
    columns = "model|slice|flags|parameters|FLOPs an update|memory a device|sent, / least|step at best|MFU at best"
    columns += "|attention, kernels a step|compiled in"
    print("| " + " | ".join(columns.split("|")) + " |\n" + "|---" * len(columns.split("|")) + "|")
    for name, (config, slices) in RUNS.items():
        for slice_, more in slices.items():
            if flags.only in name and flags.slice in slice_:
                print(row(name, config, slice_, more), flush=True)


def row(name: str, config: str, slice_: str, more: list[str]) -> str:
    words = [sys.executable, "-m", "txjax", "plan", f"--config={config}", f"--topology={slice_}", *more, "--json"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8")
    if not done.stdout:
        return f"| {name} | {slice_} | failed: {done.stderr.strip().splitlines()[-1]} |"
    plan = json.loads(done.stdout.splitlines()[0])
    least = plan["collective_bytes_minimum"]
    cells = [
        name,
        slice_,
        f"`{' '.join(flag.removeprefix('--config.') for flag in more)}`",
        f"{plan['params']:,}",
        f"{plan['flops_per_step']:.3e}",
        f"{plan['bytes_per_device'] / 2**30:.1f} of {plan['device_memory'] / 2**30:.0f} GiB"
        + ("" if plan["fits"] else " (too much)"),
        f"{plan['collective_bytes_per_step'] / 2**30:.2f} GiB / {plan['collective_bytes_per_step'] / least:.2f}",
        f"{plan['step_seconds']:.3f} s",
        f"{plan['mfu']:.0%}",
        f"{(plan['attention'] or ['none'])[0].partition(':')[0]}, {plan['kernels']}",
        f"{plan['compile_seconds']:.0f} s",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
