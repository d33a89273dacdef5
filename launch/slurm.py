"""Trains on Slurm: writes an sbatch script that requeues itself after a preemption, and submits it.

    python launch/slurm.py --config=configs/text/gpt2.py --workdir=/shared/gpt2 --nodes=2 --gpus_per_node=8 --time=8:0:0

docs/launching.md explains what happens then.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

import common
from common import Launch, UserError, count, quoted


def parser() -> common.Flags:
    flags = common.Flags(__doc__ or "")
    flags.add_argument("--nodes", type=count, default=1)
    flags.add_argument("--tasks_per_node", type=count, default=1, help="processes a node")
    flags.add_argument("--gpus_per_node", type=int, default=0)
    flags.add_argument("--cpus_per_task", type=count)
    for name in ("mem", "time", "partition", "account", "qos"):
        flags.add_argument(f"--{name}", help=f"sbatch's --{name}")
    flags.add_argument("--name", help="the job's name; default: the workdir's")
    flags.add_argument("--save_seconds", type=count, default=120, help="SIGTERM this long before the time limit")
    flags.add_argument("--sweep", type=Path, help="a file with one line of flags for every run: an array of jobs")
    flags.add_argument("--at_once", type=count, help="runs of a sweep at the same time; default: all")
    flags.add_argument(
        "--setup", action="append", default=[], help="a line of shell before the run: 'module load cuda'"
    )
    flags.add_argument("--sbatch", action="append", default=[], help="one more option of sbatch: --constraint=h100")
    flags.add_argument("--python", default=sys.executable, help="the Python that has txjax's packages")
    flags.add_argument("--dry_run", action="store_true", help="print the script, write and submit nothing")
    return flags


def points(file: Path, workdir: Path) -> list[list[str]]:
    """The flags of every run of a sweep: one line each, `#` starts a comment; the default --workdir is WORKDIR/NUMBER.

    Raises:
      UserError: a line has other words, or two runs share a folder.
    """
    if not file.is_file():
        raise UserError(f"--sweep: expected a file with one line of flags for every run, got {file}")
    found: list[list[str]] = []
    for number, line in enumerate(common.utf8_text(file).split("\n"), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UserError(f"{file} line {number}: expected words as a shell reads them; {error}") from None
        for word in words:
            common.check_plain(word)
            if not word.startswith("--workdir=") and not (common.is_trains(word) and common.is_whole(word)):
                raise UserError(f"{file} line {number}: expected --config.a.b=value or --workdir=DIR, got {word}")
        if words:
            folders = [Path(word.partition("=")[2]).resolve() for word in words if word.startswith("--workdir=")]
            folder = folders[-1] if folders else workdir / str(len(found))
            rest = [word for word in words if not word.startswith("--workdir=")]
            found.append([f"--workdir={folder}", *rest])
    folders = [Path(words[0]) for words in found]
    if not found or len(set(folders)) < len(folders):
        raise UserError(
            f"{file}: expected runs in folders of their own" if found else f"{file}: expected a run, got none"
        )
    return found


def render(flags: argparse.Namespace, overrides: list[str], launch: Launch, runs: list[list[str]]) -> str:
    """The sbatch script. A sweep's runs are in files of their own, one flag a line.

    Raises:
      UserError: the tasks of a node cannot share its GPUs evenly.
    """
    if flags.gpus_per_node % flags.tasks_per_node:
        raise UserError(f"--gpus_per_node: expected a multiple of --tasks_per_node={flags.tasks_per_node}")
    folder = shlex.quote(str(launch.folder))
    options = {
        "job-name": flags.name or flags.workdir.name,
        "output": launch.folder / ("%A_%a.out" if runs else "%j.out"),
        "array": runs and f"0-{len(runs) - 1}" + (f"%{flags.at_once}" if flags.at_once else ""),
        "nodes": flags.nodes,
        "ntasks-per-node": flags.tasks_per_node,
        "gpus-per-node": flags.gpus_per_node,
        "cpus-per-task": flags.cpus_per_task,
        **{name: getattr(flags, name) for name in ("mem", "time", "partition", "account", "qos")},
        "signal": f"TERM@{flags.save_seconds}",
        "open-mode": "append",
    }
    header = [f"--{name}={shlex.quote(str(value))}" for name, value in options.items() if value]
    directives = "\n".join(f"#SBATCH {option}" for option in [*header, "--requeue", *flags.sbatch])
    step = ["srun", "--kill-on-bad-exit=1", "--wait=120"]
    if flags.cpus_per_task:  # Slurm 22.05 and later do not pass it to a job's steps
        step += [f"--cpus-per-task={flags.cpus_per_task}"]
    if flags.nodes * flags.tasks_per_node > 1:
        step += ["--label"]
    words = [f"--config={launch.config}"]
    if runs:
        # Not SLURM_JOB_ID: for one element it is the whole array's.
        job = "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
        read = f'mapfile -t run < {folder}/points/"$SLURM_ARRAY_TASK_ID"\n'
        last = ' \\\n    "${run[@]}"'
    else:
        job, read, last = "$SLURM_JOB_ID", "", ""
        words += [f"--workdir={flags.workdir}"]
    lost = ""
    if flags.nodes > 1:
        lost = f"""
# If a node died, the tasks on the others fail; the run can resume elsewhere.
case $code in
    0 | 2 | {common.PREEMPTED}) ;;
    *) timeout 60 srun --overlap --ntasks-per-node=1 true || code={common.PREEMPTED} ;;
esac
"""
    setup = "".join(f"{line}\n" for line in flags.setup)
    return f"""#!/bin/bash
{directives}

# txjax at {launch.version}, by launch/slurm.py.
# Submitted again, the run resumes.

ulimit -c 0
trap : TERM  # txjax saves and ends; this shell waits for it
export PYTHONPATH={shlex.quote(str(launch.code))}:${{PYTHONPATH:+$PYTHONPATH:}}$PWD
{setup}job={job}
{read}
# The first task with a nonzero exit code sets the job's code: srun's is the highest of all, including tasks that it
# killed. A preempted task ({common.PREEMPTED}) must not end the others: they are saving too.
export ENDED={folder}/ended-"$job"-"${{SLURM_RESTART_COUNT:-0}}"
task='trap : TERM; "$@"; code=$?
[ $code = 0 ] || (set -o noclobber; echo $code > "$ENDED") 2> /dev/null
[ $code = {common.PREEMPTED} ] || exit $code'

{" ".join(step)} bash -c "$task" task \\
    {shlex.quote(flags.python)} -P -m txjax train \\
    {quoted([*words, *overrides])}{last}
code=$?
if [ -s "$ENDED" ]; then code=$(cat "$ENDED"); fi
{lost}
# A cancelled job is not requeued.
if [ $code = {common.PREEMPTED} ] && [ "$(squeue --noheader --jobs="$job" --format=%T)" = RUNNING ]; then
    scontrol requeue "$job"
fi
exit $code
"""


def main(argv: list[str]) -> None:
    flags, overrides = parser().read(argv)
    flags.workdir = Path(flags.workdir).resolve()
    launch = common.prepare(flags.workdir, flags.config)
    runs = points(flags.sweep, flags.workdir) if flags.sweep else []
    script = render(flags, overrides, launch, runs)
    if flags.dry_run:
        print(script, end="")
        return
    sbatch = common.need("sbatch", "a machine that can submit jobs")
    each = runs or [[f"--workdir={flags.workdir}"]]
    common.check_config(flags.python, flags.config, [[*overrides, *words] for words in each])
    launch.write({"overrides": overrides, "runs": runs})
    for number, words in enumerate(runs):
        point = launch.folder / "points" / str(number)
        point.parent.mkdir(exist_ok=True)
        point.write_text("\n".join(words) + "\n", encoding="utf-8")
    path = launch.folder / "job.sh"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run([sbatch, "--parsable", str(path)], capture_output=True, encoding="utf-8")
    if done.returncode:
        raise UserError(f"sbatch: {' '.join(done.stderr.split())}")
    job = done.stdout.strip().split(";")[0]
    launch.note({"job": job})
    if launch.untracked:
        print(f"not copied, as git does not track them: {', '.join(launch.untracked)}", file=sys.stderr)
    print(f"job {job}: {path}")


if __name__ == "__main__":
    common.run(main)
