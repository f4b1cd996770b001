from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.runtime import routing
from muster.coordinator.runtime.routing import Routing


def make(count: int) -> Routing[int]:
    """Make a table whose shards are their numbers."""
    return Routing(list(range(count)))


@given(st.text(max_size=30), st.integers(1, 60))
def test_a_key_always_has_the_same_shard(group: str, count: int) -> None:
    made = make(count)
    assert made.shard(group) is made.shard(group) is made.shards[made.partition(group)]


def test_groups_are_on_kafkas_partitions() -> None:
    made = make(50)
    found = [made.shard(group) for group in ("", "my-group", "polygenelubricants", "\U0001f600", "Aa", "BB")]
    assert found == [0, 12, 0, 49, 12, 12]


def test_the_number_of_cached_group_ids_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(routing, "_KEPT", 10)
    made = make(50)
    for number in range(1_000):
        assert made.shard(f"g{number}") == made.partition(f"g{number}")
    assert len(made._known) <= 10


def test_the_characters_of_cached_group_ids_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(routing, "_KEPT_CHARACTERS", 1_000)
    made = make(50)
    for number in range(100):
        made.shard(f"g{number:0200}")
    assert sum(map(len, made._known)) <= 1_000


def test_routing_without_shards_is_not_ready() -> None:
    assert not make(0).ready
    assert make(1).ready
