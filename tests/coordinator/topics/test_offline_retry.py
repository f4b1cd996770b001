"""Offline logs are opened again and again; the reason is logged once, and when it changes."""

from __future__ import annotations

from structlog.testing import capture_logs

from muster.coordinator.log import LogOffline
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.partition_maintenance import CHECK_EVERY_MS, MAX_CHECKS_APART, OfflineRetry

LONG_MS = 10 * MAX_CHECKS_APART * CHECK_EVERY_MS


def test_the_reason_why_a_log_stays_offline_is_logged_once_and_when_it_changes() -> None:
    clock = ManualClock()
    reasons = {0: "full", 1: "full"}
    tries = 0

    def mend(partition: int) -> None:
        nonlocal tries
        tries += 1
        if partition in reasons:
            raise LogOffline("path", reasons[partition])

    retry = OfflineRetry(clock, lambda: iter([("t", one, lambda one=one: mend(one)) for one in sorted(offline)]))
    offline = {0, 1}
    retry.start()

    def logged(ms: int = LONG_MS) -> list[tuple[str, int, str]]:
        with capture_logs() as lines:
            clock.advance(ms)
        return [(line["event"], line["partition"], line.get("reason", "")[-4:]) for line in lines]

    stays = "a log stays offline"
    assert logged() == [(stays, 0, "full"), (stays, 1, "full")]
    assert tries > 10
    assert logged() == []
    reasons[1] = "gone"
    assert logged() == [(stays, 1, "gone")]
    del reasons[0]
    assert ("a log is online again", 0, "") in logged()
    offline = {1}
    assert logged() == []
    offline = set()
    assert logged() == []
    offline, reasons = {0, 1}, {0: "full", 1: "gone"}
    assert logged() == [(stays, 0, "full"), (stays, 1, "gone")], "they were online in between"
