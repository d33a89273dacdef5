"""Which records of a split are examples: the others are errors that name them, or are left out and counted."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from txjax.errors import UserError

logger = logging.getLogger("txjax")


class UsableRecords:
    """The choice among the records of a split.

    Args:
      title: the set and the split, for messages.
      unusable, too_long: what happens to such records: "refuse" or "skip"; "refuse", "drop" or "cut".
      place: the set, the file and the number of a record, for messages.
      things: what the records are, such as recordings, for messages.
      units: what a record that is cut loses, such as samples, for messages.
      hint: what else than leaving records out makes them usable, for messages.
    """

    def __init__(
        self,
        title: str,
        unusable: str,
        too_long: str,
        place: Callable[[int], str],
        things: str,
        units: str,
        hint: str = "",
    ):
        self._title = title
        self._things = things
        self._units = units
        self._hint = hint
        self._unusable = unusable
        self._too_long = too_long
        self._place = place
        self._left_out: set[int] = set()  # records that turned out to be unusable when they were decoded

    def without_unusable(self, records: Int64[np.ndarray, "N"], faults: Mapping[int, str]) -> Int64[np.ndarray, "P"]:
        """The records that have no fault. Raises UserError for the first one that has, unless such are skipped.

        Args:
          faults: why records are unusable, by their numbers.
        """
        unusable = [number for number in records.tolist() if number in faults]
        if not unusable:
            return records
        first = unusable[0]
        if self._unusable == "refuse":
            raise self._error(first, faults[first])
        text = "%s: %d of %d records are unusable and left out, the first: %s: %s"
        logger.warning(text, self._title, len(unusable), len(records), self._place(first), faults[first])
        return records[~np.isin(records, unusable)]

    def without_long(
        self,
        records: Int64[np.ndarray, "N"],
        fits: Bool[np.ndarray, "S"],
        limits: str,
        size_text: Callable[[int], str],
    ) -> Int64[np.ndarray, "P"]:
        """The records that are short enough, or all if long ones are cut. Raises UserError if long ones are refused.

        Args:
          fits: whether a record is short enough, by its number.
          limits: the greatest lengths, for messages.
          size_text: the lengths of a record, for messages.

        Raises:
          UserError: a record is too long and such are refused, or none is left.
        """
        long = records[~fits[records]]
        if len(long) and self._too_long == "refuse":
            first = int(long[0])
            got = f"{len(long)} of {len(records)} records longer, the first: {self._place(first)}: {size_text(first)}"
            hint = 'or leave them out by "drop"'
            raise UserError("data.too_long", f"records of at most {limits}", got, hint=hint)
        if len(long):
            action = "are left out" if self._too_long == "drop" else f"lose their last {self._units}"
            text = "%s: %d of %d records are longer than %s and %s"
            logger.warning(text, self._title, len(long), len(records), limits, action)
        kept = records if self._too_long == "cut" else records[fits[records]]
        if not len(kept):
            raise UserError("data", f"at least one usable record of at most {limits}", f"none in {self._title}")
        return kept

    def leave_out(self, number: int, fault: str) -> None:
        """Counts a record that turned out to be unusable. Raises UserError, naming it, unless such are skipped."""
        if self._unusable == "refuse":
            raise self._error(number, fault)
        if number not in self._left_out:
            self._left_out.add(number)
            logger.warning("%s is left out (%d so far): %s", self._place(number), len(self._left_out), fault)

    def _error(self, number: int, fault: str) -> UserError:
        hint = "; ".join(filter(None, ['"skip" as data.unusable leaves such out', self._hint]))
        got: Any = f"{self._place(number)}: {fault}"
        return UserError("data.unusable", f"usable {self._things}", got, hint=hint)
