"""What the server logs of transactions."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from muster.coordinator.runtime.transaction_coordinator.log_lines import log_events
from muster.coordinator.transactions import events
from muster.coordinator.transactions.events import Event
from tests.coordinator.history import happenings as happened


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (happened.ending(events.TIMED_OUT, is_committed=False), "a transaction is aborted"),
        (happened.ending(events.NEW_PRODUCER, is_committed=False), "a transaction is aborted"),
        (
            happened.initialized(events.NEW_PRODUCER, fenced=(4000, 0)),
            "a producer took a transactional id over; the previous producer is fenced",
        ),
        (happened.expired(), "a transactional id expired"),
    ],
)
def test_important_transaction_events_are_logged_at_info_level(event: Event, line: str) -> None:
    with capture_logs() as lines:
        log_events([event])
    (reported,) = lines
    assert (reported["event"], reported["log_level"]) == (line, "info")
    assert (reported["transactional_id"], reported["producer_id"]) == ("pay-1", 4000)


def test_the_cause_of_an_abort_is_logged_in_words() -> None:
    with capture_logs() as lines:
        log_events([happened.ending(events.TIMED_OUT, is_committed=False)])
    assert lines[0]["cause"] == "it was open for longer than its timeout"
    assert "client_id" not in lines[0]


def test_ordinary_transaction_events_are_logged_at_debug_level() -> None:
    with capture_logs() as lines:
        for event in (happened.begun(), happened.ended(), happened.fenced(), happened.initialized()):
            log_events([event])
    assert [line["log_level"] for line in lines] in ([], ["debug"] * 4)
