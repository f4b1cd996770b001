"""When members that died were seen last, and when they expired, in a row of a rebalance."""

from __future__ import annotations

from typing import Any

from muster.pipeline.infer.history import rebalances
from muster.pipeline.tables.inferred_rebalances import generation_row
from tests.pipeline.infer.states import SESSION_S, every, last, member, state

A, B, C = (member(name, 2) for name in "abc")


def died(row: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Each member that died: when it was seen last and when it expired (seconds, rounded)."""
    return [(one["client_id"], round(one["last_ms"] / 1000), round(one["end_ms"] / 1000)) for one in row["died"]]


def test_a_dead_member_without_commits_lived_until_a_session_before_its_removal() -> None:
    """No commit was written since 40 s; one member dies before 300 s. Its partitions were unread for a session at
    most.
    """
    fixed = C._replace(instance_id="c")  # such a member seldom leaves
    busy = {one.client_id: every(1, 1, 40) for one in (A, B, fixed)}
    row = generation_row("g", last(state(1, 1, [A, B, fixed], busy), state(300, 2, [A, B])))
    assert row["cause"] == "session_expired"
    assert row["silent_from_ms"] == row["start_ms"] - SESSION_S * 1000
    assert row["silent_partition_ms"] == 2 * SESSION_S * 1000
    assert row["gone"][0]["end_ms"] == row["died"][0]["end_ms"] == row["start_ms"]


def test_the_length_of_the_first_rebalance_of_a_log_is_unknown() -> None:
    """The first record may have been written again long after its rebalance, when a static member returned under
    another id.
    """
    late = state(1, 57, [A])._replace(at_ms=18_500)
    (one,) = rebalances([late])
    row = generation_row("g", one)
    assert [row[name] for name in ("start_ms", "end_ms", "took_ms", "join_phase_ms", "sync_phase_ms")] == [
        18_500, 18_500, None, None, None
    ]  # fmt: skip


def test_a_death_that_began_a_rebalance_ends_at_its_start() -> None:
    busy = {one.client_id: every(1, 1, 300) for one in (A, B)} | {"c": every(1, 1, 89)}
    row = generation_row("g", last(state(1, 1, [A, B, C], busy), state(101, 2, [A, B])))
    assert row["cause"] == "session_expired"
    ((name, heard_s, end_s),) = died(row)
    assert (name, end_s) == ("c", round(row["start_ms"] / 1000))
    assert 89 <= heard_s <= end_s - SESSION_S + 1
    assert row["gone"][0]["end_ms"] == row["start_ms"]


def test_a_member_that_died_in_an_outage_has_an_old_last_sign_of_life() -> None:
    """All were silent for 15 s, and one continues."""
    back = every(1, 1, 30)._replace(max_gap_ms=15_000, last_ms=45_300)
    row = generation_row("g", last(state(1, 1, [A, B], {"a": back, "b": every(1, 1, 30)}), state(46, 2, [A])))
    ((name, heard_s, end_s),) = died(row)
    assert (name, heard_s) == ("b", 30)
    assert end_s >= round(row["start_ms"] / 1000)
