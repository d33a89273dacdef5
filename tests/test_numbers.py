"""Formatting of numbers."""

import math

import pytest

from txjax import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00012345, "0.0001234"), (999.94, "999.9"), (1234.5, "1,234"), (12345.0, "12.3k"), (-2.5e6, "-2.5M")]
    + [(999_999, "1M"), (3e13, "30T"), (math.inf, "inf"), (math.nan, "nan"), ("best", "best")],
)
def test_compact(value, text):
    assert numbers.compact(value) == text


def test_full_and_rounded_values_of_tables():
    assert [numbers.full(x) for x in (12, 12345, 1.234567, 12345.6, True, None)] == [
        *("12", "12,345", "1.2346", "12,346", "True", "None")
    ]
    assert [numbers.round_measured(x) for x in (12345, 1.234567, math.inf, "x")] == ["12,300", "1.23", "inf", "x"]


def test_parameters_of_laws_bytes_and_times():
    assert numbers.five_digits([1.234567, 4.1e20]) == "1.2346 to 4.1e+20" and numbers.five_digits(7) == "7"
    assert [numbers.byte_size(n) for n in (12, 2048, 3 << 40)] == ["12 B", "2 KiB", "3072 GiB"]
    assert [numbers.duration(s) for s in (1.23456, 0.0123456)] == ["1.235 s", "12.3 ms"]
    assert [numbers.duration(s) for s in (90, 36e3, 9e4, 864e3)] == ["1.5 min", "10 h", "25 h", "10 days"]
