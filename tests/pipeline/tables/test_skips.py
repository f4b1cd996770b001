"""The table `skips`: offsets that went forward while the group was empty."""

from __future__ import annotations

from pyspark.sql import DataFrame

from muster.pipeline.tables.commits import OF_LOG, walked
from muster.pipeline.tables.skips import skips
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ms, table_of


def made(engine: Engine) -> DataFrame:
    histories = [
        Commits("to-the-end").by("a", (0, 100)).by(None, (60, 145), members=0).by("a", (90, 150)),
        Commits("at-last").by("a", (0, 100)).by(None, (60, 145), members=0),
        Commits("to-the-beginning").by("a", (0, 100)).by(None, (60, 40), members=0).by("a", (90, 60)),
        Commits("by-a-member").by("a", (0, 100), (5, 900), (10, 910)),
        Commits("read-alone").by("a", (0, 100)).by(None, (60, 145), (65, 150), members=0),
        Commits("without-members").by(None, (0, 100), (5, 145), members=0),
        Commits("deleted").by("a", (0, 100)).deleted(30).by(None, (60, 145), members=0),
    ]
    rows = [row for one in histories for row in one.rows]
    return skips(walked(table_of(engine, "commits", rows), None, wanted=(OF_LOG,)))


def test_only_a_tool_that_moves_an_offset_of_an_empty_group_forward_skips_records(engine: Engine) -> None:
    assert sorted(tuple(row) for row in collected(made(engine))) == [
        ("at-last", "t", 0, ms(60), 100, 145),
        ("to-the-end", "t", 0, ms(60), 100, 145),
    ]
