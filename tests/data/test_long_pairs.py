"""Pairs of a range of lengths: those longer than one number, none longer than another."""

import dataclasses

import numpy as np
import pytest

from txjax.data import Pairs
from txjax.types import UserError

from helpers import sentence_set

pytestmark = pytest.mark.claim("Data", "pairs of a range of lengths")


def test_ranges_of_lengths_share_no_pair_and_lack_none(tmp_path):
    data_dir = sentence_set.prepare(tmp_path)
    pairs = Pairs("made_sentences", "train", data_dir, "{first}", "{second}", source_length=200, length=200)

    def lengths(data):
        source = data.open()
        return [source.example(i, 0, np.random.default_rng(0))["source_segments"].sum() for i in range(len(source))]

    whole = lengths(pairs)
    middle = int(np.median(whole))
    long = dataclasses.replace(pairs, longer_than=middle)
    short = dataclasses.replace(pairs, source_length=middle, too_long="drop")
    assert lengths(short) == [n for n in whole if n <= middle]
    assert lengths(long) == [n for n in whole if n > middle]
    with pytest.raises(UserError, match="at least one pair"):
        dataclasses.replace(pairs, longer_than=max(whole)).open()
