"""txjax train: trains a config in a workdir; the same command again resumes where it stopped."""

import contextlib

from txjax.cli.parser import Parser, workdir_of
from txjax.train.run.preemption import exit_on_signal, guard_start

SUMMARY = "train a config in a workdir; again to resume"


def run(argv: list[str]) -> int:
    flags, overrides = _parser().parse_known(argv)
    with guard_start(flags.process_count):  # these imports take seconds
        from txjax.sweep.child import follow

        follow()
        from txjax import config, distributed
        from txjax.cli import train_modes

        train_modes.check_until(flags.until)
        train_modes.check_workdir(flags)
        profiled = train_modes.profiled_steps(flags)
        if flags.dry_run:
            return train_modes.dry_run(flags, overrides)
        if flags.point and len(flags.point) > 1:
            return train_modes.train_points(flags, overrides)
        with train_modes.name_changed_files(flags.workdir):
            if flags.point or flags.trial:
                experiment = train_modes.part_of_study(flags, overrides)
            else:
                experiment = config.load(flags.config, overrides)
        train_modes.apply_flags(flags, experiment, profiled)
        from txjax.train.bucket import open_workdir  # after the config, whose errors need none of this
        from txjax.train.trainer import train

        distributed.start(
            flags.coordinator_address, flags.process_count, flags.process_index, experiment.heartbeat_timeout_seconds
        )
    with (
        exit_on_signal() if not distributed.is_multiprocess() else contextlib.nullcontext(),
        open_workdir("--workdir", flags.workdir) as workdir,
    ):
        code = train(experiment, workdir, flags.allow_config_change, flags.until, profiled)
        if is_done := code == 0 and distributed.is_primary():
            text = train_modes.last_line(flags, experiment, workdir)
    if is_done:  # and all is in the bucket
        print(text)
    return code


def _parser() -> Parser:
    parser = Parser("train", __doc__)
    parser.add_config()
    parser.add_argument(
        "--workdir", required=True, type=workdir_of, help="the run's folder: runs/first, or s3://bucket/runs/first"
    )
    parser.add_argument(
        "--allow_config_change", action="store_true", help="resume with a config that differs from the workdir's"
    )
    parser.add_argument("--until", type=int, help="stop and save after this step, short of num_steps")
    parser.add_argument(
        "--profile", metavar="START:STOP", help="trace these steps, both included, with JAX's profiler: WORKDIR/profile"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="10 steps to check that it works, evaluations of two batches, a checkpoint"
    )
    parser.add_argument(
        "--point",
        action="append",
        help="one point of FILE.py's sweep(), by its name or its digest; several train together, in WORKDIR/NAME",
    )
    parser.add_argument("--trial", help="a trial of FILE.py's search(), by its parameters as JSON")
    parser.add_argument(
        "--dry_run",
        nargs="?",
        const="all",
        choices=("all", "fields"),
        help="check all that can be known before the first step, an example of the data included, and stop; "
        "fields: the config's fields and their values alone, without devices and data",
    )
    parser.add_processes()
    return parser
