"""Connect's eager strategy: all connectors in turn, then all tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.assignors.connect.leader import assign_eagerly
from muster.assignors.connect.work import Task


def test_eager_assignment_takes_connectors_before_tasks() -> None:
    work = assign_eagerly(["w2", "w1"], {"b": 1, "a": 3})
    assert {name: [str(item) for item in items] for name, items in work.items()} == {
        "w1": ["a", "a-0", "a-2"],
        "w2": ["b", "a-1", "b-0"],
    }


@given(st.lists(st.text(max_size=3), min_size=1, unique=True), st.dictionaries(st.text(max_size=3), st.integers(0, 9)))
def test_eager_assignment_is_complete_and_even_in_any_order(workers: list[str], configured: dict[str, int]) -> None:
    work = assign_eagerly(workers, configured)
    running = sorted(item for items in work.values() for item in items)
    assert running == sorted(
        [Task(name) for name in configured]
        + [Task(name, i) for name, count in configured.items() for i in range(count)]
    )
    sizes = [len(items) for items in work.values()]
    assert max(sizes) - min(sizes) <= 1
    assert assign_eagerly(reversed(workers), dict(reversed(configured.items()))) == work


def test_a_group_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one worker"):
        assign_eagerly([], {"a": 1})
