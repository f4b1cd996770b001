from __future__ import annotations

from typing import Any

from muster.pipeline.infer.evidence import Habits, with_parting, with_state
from muster.pipeline.infer.silenced import Span
from tests.pipeline.infer.states import every, member, parting, state

A, B = member("a", 2), member("b", 2)


def parted(a_s: float | None, *, beat_s: float = 60, protocol: str = "range") -> float:
    """The probability after a rebalance at 301 s before which `a` committed last at `a_s`; None: on its beat."""
    regular = every(beat_s, 10, 250)
    a = regular if a_s is None else parting(regular, a_s)
    before = state(1, 1, [A], {"a": a}, protocol=protocol)
    return with_parting(Habits(), before, state(301, 2, [A, B], protocol=protocol)).commits_at_parting


def test_a_commit_just_before_joining_again_is_a_habit() -> None:
    assert parted(300) > 0.8


def test_a_commit_off_the_interval_before_joining_is_a_habit() -> None:
    assert parted(290) > 0.7


def test_no_commit_before_joining_is_no_habit() -> None:
    assert parted(None) < 0.2


def test_frequent_commits_show_no_habit() -> None:
    assert 0.4 < parted(None, beat_s=1) < 0.6


def test_cooperative_members_show_no_habit_of_committing_before_joining() -> None:
    assert parted(None, protocol="cooperative-sticky") == 0.5


def test_a_member_that_left_with_a_commit_shows_it() -> None:
    before = state(1, 1, [A, B], {"b": parting(every(60, 10, 250), 299)}, protocol="cooperative-sticky")
    after = state(301, 2, [A], protocol="cooperative-sticky")
    assert with_parting(Habits(), before, after).commits_at_parting > 0.8


def test_a_habit_is_never_completely_certain() -> None:
    habits, before = Habits(), state(1, 1, [A], {"a": parting(every(60, 10, 250), 300)})
    for _ in range(100):
        habits = with_parting(habits, before, state(301, 2, [A, B]))
    assert 0.99 < habits.commits_at_parting < 1


def test_commits_only_at_departure_show_no_habit() -> None:
    once = every(60, 299, 299)
    before, idle = state(1, 1, [A], {"a": once}), state(1, 1, [A])
    assert with_parting(Habits(), before, state(301, 2, [A, B])).commits_at_parting > 0.8
    assert with_parting(Habits(), idle, state(301, 2, [A, B])).commits_at_parting < 0.2
    # they were members only for a moment
    short = before._replace(at_ms=298_000)
    assert with_parting(Habits(), short, state(301, 2, [A, B])).commits_at_parting == 0.5


def test_partitions_are_counted() -> None:
    eager = with_state(with_state(Habits(), state(1, 1, [A, B])), state(9, 2, [A]))
    assert eager.counts == {"t": 2}
    sticky: dict[str, Any] = {"protocol": "cooperative-sticky"}
    withheld = with_state(with_state(Habits(), state(1, 1, [A, B], **sticky)), state(9, 2, [A], **sticky))
    assert withheld.counts == {"t": 4}
    assert with_state(withheld, state(12, 3)).counts == {"t": 4}


def test_the_usual_time_between_commits_is_remembered() -> None:
    habits = with_state(Habits(), state(1, 1, [A], {"a": every(5, 2, 100)}))
    assert with_state(habits, state(101, 2, [A])).usual_ms == 5000


def test_a_silence_of_all_groups_is_no_usual_time_between_commits() -> None:
    regular = with_state(Habits(), state(1, 1, [A], {"a": every(5, 2, 100)}))
    silenced = {"a": every(60, 102, 162)}
    assert with_state(regular, state(101, 2, [A], silenced)).usual_ms == 60_000
    away = regular._replace(silences=(Span(103_000, 161_000, is_frozen=False),))
    assert with_state(away, state(101, 2, [A], silenced)).usual_ms == 5_000
    assert with_state(away, state(101, 2, [A], {"a": every(4, 162, 190)})).usual_ms == 4_000
    assert with_state(away._replace(usual_ms=None), state(101, 2, [A], silenced)).usual_ms == 60_000
