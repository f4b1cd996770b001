"""The section of the page about share groups, from tables. Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster.pipeline.report.page import PAGE, pages
from muster.pipeline.report.select import select
from tests.pipeline.report.made import EVIL
from tests.pipeline.report.test_page import Reader
from tests.pipeline.report.test_select import ABOUT, START, generation, member, tables


def partition_of(group: str, number: int, lag: int, **more: Any) -> dict[str, Any]:
    counts = {"accepted": 1_200, "archived": 1, "redelivered": 7, "ended": 9, "waiting": 2, "first_ms": START}
    return {"group": group, "topic": EVIL, "partition": number, "lag": lag, "oldest_ms": START, **counts, **more}


def delivery(group: str, outcome: str, offset: int, records: int = 1) -> dict[str, Any]:
    return {
        "group": group, "topic": "orders", "partition": 0, "outcome": outcome, "deliveries": 5, "records": records,
        "first_offset": offset, "last_offset": offset + records - 1, "from_ms": START, "until_ms": START + 90_000,
        "most_ms": 90_000,
    }  # fmt: skip


def page_of(folder: Path, **rows: list[dict[str, Any]]) -> Reader:
    known = [generation("queue", 2, 0, None, member("a", [0]))]
    page = pages(select(tables(folder, generations=known, **rows), ABOUT))[PAGE]
    assert EVIL not in page
    return Reader(page)


def test_the_page_shows_partitions_and_deliveries_of_share_groups(tmp_path: Path) -> None:
    partitions = [partition_of("queue", number, lag=number) for number in range(50)]
    deliveries = [delivery("queue", "accepted", 3, 9), delivery("queue", "archived", 42)]
    read = page_of(tmp_path, share_partitions=partitions, deliveries=deliveries)
    assert "#shares" in read.links
    words = read.words
    assert f"{EVIL}-49" in words
    assert "10 more: see the tables." in words
    # records that were given up come first
    assert words.index("archived: rejected, or delivered as often as allowed") < words.index("accepted later")
    assert "3 to 11" in words
    assert "1 min 30 s" in words
    # how far the group is behind, of all its partitions
    assert "1,225" in words


def test_a_page_without_share_groups_does_not_mention_them(tmp_path: Path) -> None:
    assert "#shares" not in page_of(tmp_path).links


def test_without_such_deliveries_the_page_says_so(tmp_path: Path) -> None:
    words = page_of(tmp_path, share_partitions=[partition_of("queue", 0, 0)]).words
    assert "which worker had it. None." in words
