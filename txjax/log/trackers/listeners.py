"""Trackers of the program that started a run, beside the trackers of its config: no config.json has them."""

from txjax.log.trackers.tracker import Tracker
from txjax.scoped import Scoped

# Inside a block, each log that opens sends its rows to these, too.
listeners = Scoped[tuple[Tracker, ...]]("listeners", ())
