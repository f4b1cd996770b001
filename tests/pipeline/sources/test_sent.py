"""By when a broker surely had the records of each batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from muster.pipeline.sources.batches import LOG_APPEND_TIME, Batches
from muster.pipeline.sources.sent import FULL_BYTES, UNKNOWN, sent_by

Header = tuple[int, int]
"""The times of the first and of the last record."""


def sent(
    *headers: Header, ids: Sequence[int] | None = None, bytes_: Sequence[int] | None = None, attributes: int = 0
) -> list[int | None]:
    count = len(headers)
    facts = {name: np.zeros(count, np.int64) for name in Batches._fields}
    facts["base_timestamp"], facts["max_timestamp"] = (
        np.array(times, np.int64) for times in zip(*headers, strict=True)
    )
    facts["producer_id"] = np.array(ids or [-1] * count, np.int64)
    facts["size"] = np.array(bytes_ or [100] * count, np.int64)
    facts["attributes"] += attributes
    found = sent_by(Batches(**facts | {"source": b""})).tolist()
    return [None if one == UNKNOWN else one for one in found]


def test_a_small_batch_was_sent_before_the_next_one_began() -> None:
    assert sent((1, 1), (2, 3), (4, 4)) == [2, 4, None]
    assert sent((1, 61), (62, 62), (63, 63)) == [62, 63, None]  # it waited for a minute
    assert sent((1, 1)) == [None]


def test_a_full_batch_waited_perhaps() -> None:
    full = FULL_BYTES + 1
    assert sent((1, 1), (2, 3), (4, 4), (9, 9), bytes_=[full, full, 100, 100]) == [9, 9, 9, None]


@pytest.mark.parametrize(("ids", "found"), [([1, 2, 1, 2], [20, 21, None, None]), (None, [20, 20, 21, None])])
def test_each_producer_has_its_own_batches(ids: list[int] | None, found: list[int | None]) -> None:
    """Two producers send late. Producers without ids count as one."""
    assert sent((1, 19), (3, 18), (20, 20), (21, 21), ids=ids) == found


def test_older_records_in_a_later_batch_show_that_a_producer_was_late() -> None:
    assert sent((10, 10), (20, 20), (15, 15), (30, 30), (40, 40)) == [20, 30, 30, 40, None]
    assert sent((20, 20), (30, 30), (15, 15)) == [None, None, None]


def test_a_brokers_own_time_says_when_a_batch_came() -> None:
    assert sent((1, 5), (2, 7), attributes=LOG_APPEND_TIME) == [5, 7]
