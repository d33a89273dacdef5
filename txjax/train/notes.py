"""What a run notes in its workdir at each start: its config, and what runs it on which data."""

from collections.abc import Mapping

from txjax import backend
from txjax.train.prepare import Run
from txjax.train.workdir import write_config, write_manifest


def write_notes(run: Run, costs: Mapping[str, int]) -> None:
    """Writes `config.json` and `manifest.json`.

    Args:
      costs: of a step, by name, as `counting.step_costs` returns them.
    """
    counts = {**costs, "tokens_per_epoch": costs["tokens_per_step"] * len(run.source) // run.experiment.batch_size}
    origins = run.init_source.facts if run.init_source else None
    write_config(run.workdir, run.experiment)
    write_manifest(run.workdir, run.fingerprints, counts, backend.compiler_options(), origins)
