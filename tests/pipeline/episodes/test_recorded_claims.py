"""The claims about each recorded log: every claim has its evidence, and no other fact contradicts it."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from muster.pipeline.episodes.claims import CONFIDENCES, PERHAPS, STALLED, TOO_SLOW
from muster.pipeline.episodes.thresholds import MOMENT_MS
from muster.pipeline.explain.inputs import inputs_of, log_of_path
from muster.pipeline.frames import in_this_process
from muster.pipeline.tables.build import build
from tests.pipeline.episodes.test_claims import MOST_WORDS, RULES, words

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
DRAWN = sorted(RECORDED.glob("*drawn-*.tar.xz"))
LOGS = [*sorted({*RECORDED.glob("*.tar.xz")} - {*DRAWN}), *DRAWN[::6]]
"""All scripted logs, and a sixth of the others."""
TIMES = {
    "rebalances": ("end_ms",), "memberships": ("end_ms",), "stalls": ("start_ms",), "regressions": ("time_ms",),
    "progress": ("start_ms",), "skips": ("time_ms",),
}  # fmt: skip
"""The columns with the time by which the evidence is found in each table."""

Row = dict[str, Any]


@pytest.mark.parametrize("archive", LOGS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_each_claim_about_a_recorded_log_is_proved_and_not_contradicted(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    with in_this_process():
        made = build(inputs_of(log_of_path(str(tmp_path / "log"))), ("verdicts", "silences", *TIMES))
        tables: dict[str, list[Row]] = {name: rows.toArrow().to_pylist() for name, rows in made.items()}
    known = {
        (name, row["group"], row[column]) for name, columns in TIMES.items() for row in tables[name]
        for column in columns
    }  # fmt: skip
    silences = [(row["from_ms"] - MOMENT_MS, row["until_ms"] + MOMENT_MS) for row in tables["silences"]]
    assert tables["verdicts"]
    for row in tables["verdicts"]:
        for claim in row["claims"]:
            assert claim["rule"] in RULES
            assert claim["confidence"] in CONFIDENCES
            assert words(claim["text"]) <= MOST_WORDS, claim["text"]
            assert claim["text"].count(" unread ") <= 1, claim["text"]
            assert ("perhaps" in claim["text"]) or claim["confidence"] != PERHAPS
            for one in claim["evidence"]:
                assert one["table"] not in TIMES or (one["table"], row["group"], one["at_ms"]) in known, claim["text"]
            _is_not_contradicted(row["group"], claim, tables, silences)


def _is_not_contradicted(group: str, claim: Row, tables: dict[str, list[Row]], silences: list[tuple[int, int]]) -> None:
    if claim["rule"] == STALLED:
        assert not any(begin <= claim["from_ms"] and claim["until_ms"] <= end for begin, end in silences), claim["text"]
    if claim["rule"] == TOO_SLOW:
        steps = [row for row in tables["progress"] if row["group"] == group and row["until_ms"] >= claim["from_ms"]]
        steps.sort(key=lambda row: row["start_ms"])
        assert sum(row["records"] or 0 for row in steps) > 0, claim["text"]
        assert steps[-1]["lag"] > steps[0]["lag"], claim["text"]
