"""Trains on Cloud TPU VMs: a queued resource, the same command on all its workers, and again after a preemption.

    python launch/tpu.py --config=configs/text/gpt2.py --workdir=/runs/gpt2 --name=gpt2 --zone=us-east5-b \\
        --tpu=v6e-16 --runtime_version=v2-alpha-tpuv6e --image=REGISTRY/txjax:COMMIT --setup='sudo mount ... /runs'

It prints the script; --submit runs it here. docs/launching.md has the details.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys

import common
from common import Launch, UserError, count, quoted


def parser() -> common.Flags:
    flags = common.Flags(__doc__ or "")
    flags.add_argument("--name", required=True, help="of the queued resource")
    flags.add_argument("--tpu", required=True, help="the accelerator type: v6e-16")
    flags.add_argument("--runtime_version", required=True, help="the VMs' software: v2-alpha-tpuv6e")
    flags.add_argument("--zone", required=True)
    flags.add_argument("--project", help="default: gcloud's own")
    flags.add_argument("--image", required=True, help="built by launch/Dockerfile, with this checkout's commit as tag")
    flags.add_argument("--slices", type=count, default=1)
    flags.add_argument("--spot", action="store_true")
    flags.add_argument("--setup", action="append", default=[], help="shell on every worker first: mounts --workdir")
    flags.add_argument("--save_seconds", type=count, default=120, help="between SIGTERM and SIGKILL")
    flags.add_argument("--dry_run", action="store_true", help="print the script, as without --submit")
    flags.add_argument("--submit", action="store_true", help="run the script, until the training ends")
    return flags


def render(flags: argparse.Namespace, overrides: list[str], launch: Launch) -> str:
    """The script: create, wait, copy the config, run, look at the exit code, delete; again after a preemption."""
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,60}[a-z0-9])?", flags.name):
        raise UserError(f"--name: expected a-z, 0-9 and -, beginning with a letter, got {flags.name}")
    if not flags.workdir.startswith("/"):
        raise UserError(f"--workdir: expected a path on the workers, which all of them share, got {flags.workdir}")
    folder = f"txjax-{flags.name}"  # in the home of every worker
    nodes = (
        [f"--node-id={flags.name}"]
        if flags.slices == 1
        else [f"--node-count={flags.slices}", f"--node-prefix={flags.name}"]
    )
    create = [*nodes, f"--accelerator-type={flags.tpu}", f"--runtime-version={flags.runtime_version}"]
    create += ["--spot"] if flags.spot else []
    where = [f"--zone={flags.zone}", *([f"--project={flags.project}"] if flags.project else [])]
    source = shlex.quote(launch.source.name)
    docker = ["sudo", "docker", "run", "--rm", "--init", "--privileged", "--net=host"]
    docker += [f"--stop-timeout={flags.save_seconds}", f"--volume={flags.workdir}:{flags.workdir}"]
    train = launch.in_image(flags.workdir)
    run = [
        f"rm -f ~/{folder}/code",
        *flags.setup,
        f'{shlex.join(docker)} --volume="$HOME/{folder}:/config:ro" {shlex.quote(flags.image)} \\\n    '
        + quoted([*train, *overrides]),
        f"echo $? > ~/{folder}/code",
    ]
    return f"""#!/bin/bash
# txjax at {launch.version}, by launch/tpu.py: the same command on all workers of {flags.tpu}, again after a preemption.

name={flags.name}
tpu() {{ gcloud compute tpus queued-resources "$@" {shlex.join(where)}; }}
state() {{ tpu describe "$name" --format='value(state.state)'; }}
run={shlex.quote(chr(10).join(run))}

while true; do
    tpu create "$name" {shlex.join(create)} || exit 1
    until [ "$(state)" = ACTIVE ]; do
        case "$(state)" in FAILED | SUSPENDING | SUSPENDED) echo "$name could not be allocated" >&2; exit 1 ;; esac
        sleep "${{POLL_SECONDS:-60}}"
    done
    tpu ssh "$name" --node=all --worker=all --command='mkdir -p {folder}' &&
        tpu scp {shlex.quote(str(launch.source))} "$name:{folder}/"{source} --node=all --worker=all &&
        tpu ssh "$name" --node=all --worker=all --command="$run"
    code=$(tpu ssh "$name" --command='cat {folder}/code')
    if [ -n "$code" ] && [ "$code" != {common.PREEMPTED} ]; then break; fi
    if [ -z "$code" ] && [ "$(state)" = ACTIVE ]; then
        echo "$name is active, but has no exit code of txjax; inspect it, then delete it" >&2
        exit 1
    fi
    tpu delete "$name" --force --quiet || exit 1
done
tpu delete "$name" --force --quiet
exit "$code"
"""


def main(argv: list[str]) -> None:
    flags, overrides = parser().read(argv)
    launch = common.prepare(None, flags.config)
    script = render(flags, overrides, launch)
    if not flags.submit or flags.dry_run:
        print(script, end="")
        return
    if launch.changed:
        raise UserError(f"--submit: expected a commit, as in {flags.image}; changed: {', '.join(launch.changed)}")
    common.need("gcloud", "a machine that can ask for TPUs")
    common.check_config(sys.executable, flags.config, [[f"--workdir={flags.workdir}", *overrides]])
    os.execvp("bash", ["bash", "-c", script])


if __name__ == "__main__":
    common.run(main)
