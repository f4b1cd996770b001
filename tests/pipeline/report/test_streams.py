"""The section of the page about streams groups, from tables. Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.pipeline.report.made import EVIL
from tests.pipeline.report.test_select import START
from tests.pipeline.report.test_shares import page_of


def topics(state: str, **more: Any) -> dict[str, Any]:
    return {"group": "queue", "topology_epoch": 0, "state": state, "from_ms": START, "until_ms": None, **more}


def task(number: int, unowned_ms: int | None) -> dict[str, Any]:
    return {
        "group": "queue", "subtopology": "0", "partition": number, "role": "active", "member_id": "m",
        "client_id": EVIL, "start_ms": START + 60_000, "first_epoch": 1, "last_epoch": 2, "unowned_ms": unowned_ms,
    }  # fmt: skip


def test_the_page_shows_topics_that_are_not_ready_and_tasks_that_nobody_had(tmp_path: Path) -> None:
    rows = [
        topics("ready"), topics("not_ready", missing=[EVIL]), topics("not_ready", why="Source topics t are missing."),
        topics("shutdown", client_id="app-1-StreamThread-2-consumer"), topics("not_ready", until_ms=START + 9_000),
    ]  # fmt: skip
    read = page_of(tmp_path, topologies=rows, tasks=[task(0, None), task(1, 9), task(2, 90_000), task(3, 2_000)])
    assert "#streams" in read.links
    words = read.words
    for text in (f"perhaps missing: {EVIL}", "Source topics t are missing.", "ended after an error", "app-1", "still"):
        assert text in words
    assert words.index("1 min 30 s") < words.index("2 s", words.index("nobody had it for"))
    assert "0_3" in words
    assert "0_1" not in words


def test_a_page_without_trouble_of_streams_groups_does_not_mention_them(tmp_path: Path) -> None:
    assert "#streams" not in page_of(tmp_path, topologies=[topics("ready")], tasks=[task(0, None)]).links


def test_one_kind_of_trouble_alone(tmp_path: Path) -> None:
    assert "None." in page_of(tmp_path / "a", topologies=[topics("not_ready")]).words
    assert "None." in page_of(tmp_path / "b", tasks=[task(0, 5_000)]).words
