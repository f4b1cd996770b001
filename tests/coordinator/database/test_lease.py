"""What the holder of a seat decides."""

from __future__ import annotations

import pytest

from muster.coordinator.database.lease import Lease, Outcome, outcome
from muster.coordinator.database.store import Seat


@pytest.mark.parametrize(
    ("epoch", "turn", "expected"),
    [
        (3, 7, Outcome.DONE),
        (3, 6, Outcome.AGAIN),
        (4, 0, Outcome.LOST),
        (4, 7, Outcome.LOST),
        (2, 7, Outcome.LOST),
        (3, 8, Outcome.LOST),
        (3, 5, Outcome.LOST),
    ],
)
def test_what_has_become_of_turn_7_of_epoch_3(epoch: int, turn: int, expected: Outcome) -> None:
    assert outcome(Seat(1, epoch, turn, 20, "somebody", "somewhere", 1), 3, 7, 20) is expected


def test_what_others_lead_is_to_be_known_first() -> None:
    seat = Seat(1, 3, 6, 20, "somebody", "somewhere", 1)
    assert outcome(seat, 3, 7, 19) is Outcome.BEHIND
    assert outcome(seat._replace(turn=7), 3, 7, 19) is Outcome.DONE
    assert outcome(seat._replace(epoch=0), 3, 7, 19) is Outcome.LOST
    assert outcome(None, 3, 7, 20) is Outcome.LOST


def test_a_lease_counts_from_what_was_sent() -> None:
    lease = Lease(9_000, 1_000)
    assert not lease.is_over(9_999)
    assert lease.is_over(10_000)
    lease.extended(5_000)
    assert (lease.ends_ms, lease.renew_ms) == (14_000, 7_250)


def test_an_older_answer_does_not_shorten_it() -> None:
    lease = Lease(9_000, 1_000)
    lease.extended(5_000)
    lease.extended(4_000)
    assert lease.ends_ms == 14_000
