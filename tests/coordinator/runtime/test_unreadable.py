"""What a load reports of records that it cannot read."""

from __future__ import annotations

from structlog.testing import capture_logs

from muster.coordinator.runtime.loader import Unreadable
from muster.protocol.message import MalformedMessage
from muster.protocol.records import UnknownRecord


def test_each_unknown_kind_is_logged_once_and_each_damaged_record_always() -> None:
    unreadable = Unreadable(3)
    with capture_logs() as lines:
        for version in (None, 5, None, 5):
            unreadable.report(UnknownRecord("offsets", 9, version))
        for _ in range(2):
            unreadable.report(MalformedMessage("OffsetCommitValue", "truncated"))
    assert [(line["log_level"], line["partition"]) for line in lines] == [("warning", 3)] * 2 + [("error", 3)] * 2
