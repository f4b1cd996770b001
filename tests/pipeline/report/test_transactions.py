"""The texts of page and summary about transactions. Without Spark."""

from __future__ import annotations

from typing import Any

from muster.pipeline.report.content import Some
from muster.pipeline.report.page import PAGE, pages
from muster.pipeline.report.summary import text
from tests.pipeline.report.made import EVIL, START_MS, chosen
from tests.pipeline.report.test_page import Reader


def transaction(name: str | None, took_ms: int | None, **more: Any) -> dict[str, Any]:
    topics = [{"topic": topic, "partitions": [0]} for topic in ("__consumer_offsets", "a", "b", "c", "d")]
    return {
        "transactional_id": name, "producer_id": 7, "start_ms": START_MS, "took_ms": took_ms, "outcome": "aborted",
        "cause": "timeout", "topics": topics, "partitions": 5, "groups": ["payments"], "offsets": 3, **more,
    }  # fmt: skip


def reported() -> dict[str, Any]:
    ends = {"took_ms": 61_000.0, "longest_ms": 62_000}
    row = {"producer_id": 7, "transactions": 5, "aborted": 2, "timed_out": 1, "taken_over": 1, "longest_ms": 62_000}
    return {
        "transaction_ends": [
            {"outcome": "committed", "cause": "client", "transactions": 12, **ends},
            {"outcome": "aborted", "cause": "timeout", "transactions": 2, **ends},
            {"outcome": None, "cause": None, "transactions": 1, "took_ms": None, "longest_ms": None},
        ],
        "transactional_ids": Some([row | {"transactional_id": EVIL}, row | {"transactional_id": None}], 2),
        "longest": Some([transaction("pay-1", 62_000), transaction("pay-2", None, topics=None, groups=None)], 2),
        "aborted": Some([transaction(None, 5, cause="new_producer", offsets=None)], 7),
    }


def test_the_page_shows_transactions() -> None:
    page = pages(chosen(**reported()))[PAGE]
    assert EVIL not in page
    words = Reader(page).words
    for said in (
        "aborted: open for longer than its timeout",
        "(producer 7)",
        "1 min 2 s",
        "still open",
        "5 partitions: a, b, c, 1 more topic",
        "payments (3 offsets)",
        "aborted: another producer took the id over",
        "6 more: see the tables.",
        EVIL,
    ):
        assert said in words, said
    assert "#transactions" in Reader(page).links


def test_the_summary_shows_transactions() -> None:
    lines = text(chosen(**reported())).splitlines()
    at = lines.index("transactions")
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["12", "committed", "1", "min", "1", "s", "on", "average"],
        [
            *("2", "aborted:", "open", "for", "longer", "than", "its", "timeout"),
            *("1", "min", "1", "s", "on", "average"),
        ],
        ["1", "still", "open"],
    ]


def test_a_report_without_transactions_does_not_mention_them() -> None:
    assert "ransaction" not in pages(chosen())[PAGE]
    assert "ransaction" not in text(chosen())
