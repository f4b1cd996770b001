"""A follower reads each row of the log once, in batches of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from muster.pipeline.follow.tail import EVENT, TOPICS, Position, Tail, _group_of_state
from muster.pipeline.schema import DECODED, OFFSETS_TOPIC
from muster.pipeline.sources.cluster import LogReplaced, admin_client, bounds_of_topics
from muster.pipeline.tables.inputs import EVENTS_TOPIC
from tests.pipeline.live import Live


@pytest.fixture
def admin(live: Live) -> Iterator[AdminClient]:
    with admin_client(live.client) as client:
        yield client


def read(tail: Tail, position: Position) -> tuple[list[tuple[str, int, int]], Position, int]:
    """The kind and place of each row that a tail reads, the position behind them, and the number of batches."""
    found: list[tuple[str, int, int]] = []
    batches = 0
    while (batch := tail.next(position)) is not None:
        for rows in batch.rows:
            assert rows.schema == DECODED
            found += zip(
                *(rows.column(name).to_pylist() for name in ("kind", "log_partition", "log_offset")), strict=True
            )
        position = batch.position
        batches += 1
    return found, position, batches


def test_every_row_is_read_once_in_batches_of_a_bounded_size(live: Live, admin: AdminClient) -> None:
    whole, end, batches = read(Tail(admin, live.client, 1_000_000, once=False), {})
    assert batches == 1
    assert len(set(whole)) == len(whole)
    assert {kind for kind, *_ in whole} >= {"commit", "classic", EVENT}
    some, same_end, batches = read(Tail(admin, live.client, 50, once=False), {})
    assert sorted(some) == sorted(whole)
    assert (same_end, batches > 2) == (end, True)
    live.commit("later", 1)
    more, _, batches = read(Tail(admin, live.client, 50, once=False), end)
    assert (batches, [kind for kind, *_ in more]) == (1, ["commit"] * 4)


def test_a_tail_that_reads_once_stops_where_the_log_ended(live: Live, admin: AdminClient) -> None:
    tail = Tail(admin, live.client, 50, once=True)
    live.commit("too-late", 1)
    _, end, _ = read(tail, {})
    more, _, _ = read(Tail(admin, live.client, 50, once=True), end)
    assert [kind for kind, *_ in more] == ["commit"] * 4


def test_a_log_that_ends_before_the_position_is_an_error(live: Live, admin: AdminClient) -> None:
    _, end, _ = read(Tail(admin, live.client, 1_000_000, once=False), {})
    tail = Tail(admin, live.client, 50, once=False)
    with pytest.raises(LogReplaced, match=r"ends at .* follow into another folder"):
        tail.next({**end, OFFSETS_TOPIC: {**end[OFFSETS_TOPIC], 3: 1_000_000}})


def test_a_topic_that_does_not_exist_is_waited_for_and_a_deleted_one_is_an_error(
    live: Live, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics: Any = (*TOPICS, "not-yet")
    found, unseen = bounds_of_topics(admin, topics)
    assert (EVENTS_TOPIC in found, "not-yet" in unseen) == (True, True)
    monkeypatch.setattr("muster.pipeline.follow.tail.TOPICS", topics)
    tail = Tail(admin, live.client, 1_000_000, once=False)
    _, end, _ = read(tail, {})
    assert "not-yet" not in end
    with pytest.raises(LogReplaced, match="not-yet was deleted; follow into another folder"):
        tail.next({**end, "not-yet": {0: 5}})


def test_the_group_of_a_share_state_is_in_its_key() -> None:
    assert _group_of_state(b"\0\0\0\5queueRest") == "queue"
    assert _group_of_state(b"\0\0\0\2\xff\xffRest") is None
