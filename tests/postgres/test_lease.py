"""What the holder of a node registration decides."""

from __future__ import annotations

import pytest

from muster.postgres.lease import Lease, Outcome, outcome
from muster.postgres.store import NodeRegistration


@pytest.mark.parametrize(
    ("epoch", "write_no", "barrier", "expected"),
    [
        (3, 7, 5, Outcome.SEEN),
        (3, 8, 5, Outcome.SEEN),  # an empty write behind it
        (3, 6, 5, Outcome.AGAIN),
        (3, 6, 6, Outcome.AGAIN),
        (3, 6, 4, Outcome.LOST),  # the rows that this node has read are gone
        (3, 7, 4, Outcome.LOST),
        (4, 0, 5, Outcome.LOST),
        (4, 7, 5, Outcome.LOST),
        (2, 7, 5, Outcome.LOST),
        (0, 6, 5, Outcome.LOST),
        (3, 9, 5, Outcome.LOST),
        (3, 5, 5, Outcome.LOST),  # the answered write is gone
    ],
)
def test_the_fate_of_an_unanswered_write_is_found(epoch: int, write_no: int, barrier: int, expected: Outcome) -> None:
    registration = NodeRegistration(1, epoch, write_no, 20, "somebody", "somewhere", 1, barrier)
    assert outcome(registration, 3, {6}, {7, 8}, 5) is expected


def test_a_missing_registration_ends_the_session() -> None:
    assert outcome(None, 3, {6}, {7}, 0) is Outcome.LOST


def test_a_lease_counts_from_the_time_of_sending() -> None:
    lease = Lease(9_000, 1_000)
    assert not lease.is_over(9_999)
    assert lease.is_over(10_000)
    lease.extended(5_000)
    assert (lease.ends_ms, lease.renew_ms) == (14_000, 7_250)


def test_an_older_answer_does_not_shorten_the_lease() -> None:
    lease = Lease(9_000, 1_000)
    lease.extended(5_000)
    lease.extended(4_000)
    assert lease.ends_ms == 14_000
