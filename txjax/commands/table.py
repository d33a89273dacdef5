"""Tables on a terminal."""

from txjax.log.table import table

__all__ = ["table"]
