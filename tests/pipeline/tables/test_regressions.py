from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from muster.pipeline.schema import columns
from muster.pipeline.tables.commits import walked
from muster.pipeline.tables.regressions import fenced, regressions
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ends_of, ms, table_of

IDS = pa.schema(columns("group string, log_offset long, topic_id string"))
Found = dict[str, list[dict[str, Any]]]

HISTORIES = {
    "forward": Commits("forward").by("a", (0, 10), (5, 10), (10, 20), (15, 20)),
    "seek": Commits("seek").by("a", (0, 100), (5, 200), (10, 120), (15, 180), (20, 230)),
    "seek-by-little": Commits("seek-by-little").by("a", (0, 100), (5, 110), (10, 120), (15, 110), (20, 120)),
    "to-the-beginning": Commits("to-the-beginning").by("a", (0, 100), (5, 0), (10, 30)),
    "by-a-tool": Commits("by-a-tool").by("a", (0, 100)).by(None, (60, 40), members=0).by("a", (90, 60)),
    "without-members": Commits("without-members").by(None, (0, 100), (10, 90), members=0),
    "expired": Commits("expired").by("a", (0, 100)).deleted(1000).by("a", (2000, 30)),
    "deleted-and-on": Commits("deleted-and-on").by("a", (0, 100)).deleted(5).by("a", (9, 120)),
    "first-after-deletion": Commits("first-after-deletion").deleted(0).by("a", (5, 10), (10, 20)),
    "compacted": Commits("compacted").by(None, (0, 100), (5, 50), (10, 60)),
    "compacted-beginning": Commits("compacted-beginning").by(None, (0, 100), (5, 0), (10, 60)),
    "zombie": Commits("zombie").by("a", (0, 100)).by("b", (60, 120), (65, 150), (70, 105), (75, 170)),
    "zombie-again": Commits("zombie-again").by("a", (0, 90), (5, 100)).by("b", (60, 150), (65, 100), (70, 155)),
    "zombie-per-record": Commits("zombie-per-record")
    .by("a", (0, 100))
    .by("b", (60, 150), (61, 101), (61, 102), (61, 103), (62, 152)),
    "zombie-of-before": Commits("zombie-of-before")
    .by("a", (0, 80), (5, 90), (6, 100))
    .by("b", (60, 150), (61, 90), (65, 160)),
    "zombie-ahead": Commits("zombie-ahead").by("a", (0, 100)).by("b", (10, 180), (15, 120), (20, 140)),
    "zombie-late": Commits("zombie-late").by("a", (0, 100)).by("b", (9_000, 9_000), (9_001, 110), (9_005, 9_050)),
    "seek-after-hours": Commits("seek-after-hours")
    .by("a", (0, 100))
    .by("b", (9, 150), (9_000, 9_000), (9_001, 8_900), (9_005, 9_050)),
    "new-owner-lower": Commits("new-owner-lower").by("a", (0, 100)).by("b", (9, 60), (14, 70), (19, 80)),
    "huge": Commits("huge").by("a", (0, 2**63 - 1)).by("b", (5, 2**63 - 2), (6, -(2**63)), (7, 2**63 - 1)),
    "static-restart": Commits("static-restart")
    .by("a", (0, 100), instance_id="i")
    .by("a2", (9, 150), (14, 120), (19, 160), instance_id="i"),
    "two-write": Commits("two-write").by(None, (0, 335), (1, 50), (5, 345), (10, 355), (11, 80), (15, 370), (16, 90),
        (20, 380), (21, 100), members=0),
    "two-write-with-members": Commits("two-write-with-members")
    .by("a", (0, 335), (1, 50), (5, 345), (6, 80), (10, 355), (11, 90), (15, 370)),
    # after the broker's absence, the requests that waited come in any order
    "come-again": Commits("come-again").by("a", (0, 974), (1, 25), (1, 974), (2, 25), (2, 974), (3, 25), (3, 974),
        (9, 990)),
    "a-stranger": Commits("a-stranger").by("a", (0, 100), generation=1)
    .by(None, (60, 20), (65, 25), (70, 30), members=0, generation=2).by("a", (90, 40), generation=3),
    "own-place": Commits("own-place").by("a", (0, 90), (5, 100), generation=1)
    .by("b", (10, 60), (15, 105), (20, 120), generation=2),
    "seek-soon-after": Commits("seek-soon-after").by("a", (0, 100)).by("b", (10, 130), (15, 300), (20, 275), (25, 320)),
    "new-owner-in-an-epoch": Commits("new-owner-in-an-epoch").by("a", (0, 90), generation=1)
    .by("a", (5, 100), generation=2).by("b", (10, 85), (15, 120), generation=2),
    "alone-restarted": Commits("alone-restarted")
    .by(None, (0, 90), (5, 100), (30, 60), (35, 65), (40, 71), (45, 78), members=0),
    "alone-reset": Commits("alone-reset")
    .by(None, (0, 90), (5, 100), (30, 60), (60, 65), (65, 70), (70, 75), members=0),
    "alone-reset-meanwhile": Commits("alone-reset-meanwhile")
    .by(None, (0, 90), (5, 100), (8, 60), (10, 105), (15, 110), (20, 115), members=0),
    "alone-not-known": Commits("alone-not-known")
    .by(None, (0, 90), (5, 100), (30, 60), (38, 65), (43, 70), (48, 75), members=0),
    "alone-cut-off": Commits("alone-cut-off").by(None, (0, 90), (5, 100), (30, 60), (35, 65), members=0),
    "alone-all-at-once": Commits("alone-all-at-once")
    .by(None, (0, 90), (5, 100), (10, 60), (15, 105), (20, 110), (25, 115), members=0),
    "made-again": Commits("made-again").by("a", (0, 100), topic_id="one").by("a", (60, 7), (65, 9), topic_id="two"),
    "made-again-by-tombstones": Commits("made-again-by-tombstones").by("a", (0, 100), topic_id="one").deleted(10)
    .by("a", (60, 7), topic_id="two"),
    "made-again-and-empty": Commits("made-again-and-empty").by("a", (0, 100), topic_id="one")
    .by("a", (60, 7), topic_id="two", members=0),
    "same-topic": Commits("same-topic").by("a", (0, 100), topic_id="one").by("a", (60, 7), (65, 9), topic_id="one"),
    "beyond-the-end": Commits("beyond-the-end", "short").by("a", (0, 90), (5, 100), (60, 7), (65, 9)),
    "once-beyond-the-end": Commits("once-beyond-the-end", "short").by("a", (0, 20), (5, 100), (60, 7), (65, 9)),
    "beyond-an-old-end": Commits("beyond-an-old-end", "old").by("a", (0, 90), (5, 100), (60, 7), (65, 9)),
    "twice": Commits("twice").by("a", (0, 100), (5, 50), (10, 300), (100, 200), (105, 310)),
}  # fmt: skip
"""The histories, each of a group of its own."""

SEVERAL = (
    # a moment after the rebalance each of two members is back at its own offset, one of them at the beginning
    Commits("own-places").by("a", (0, 15), generation=1).by("b", (0, 150), partition=1, generation=1)
    .by("a", (9, 0), (15, 30), generation=2).by("b", (10, 110), (15, 170), partition=1, generation=2),
    Commits("alone-partitions").by(None, (0, 90), (5, 100), (30, 60), (35, 65), (40, 71), (45, 78), members=0)
    .by(None, (5, 50), (31, 30), partition=1, members=0),
    Commits("at-once").by("a", (0, 100)).by("b", (0, 100), partition=1).by("a", (9, 50)).by("b", (9, 50), partition=1),
    Commits("at-once-unknown").by(None, (0, 100), (9, 50)).by(None, (0, 100), (9, 50), partition=1),
    Commits("at-once-by-one").by("a", (0, 100), (9, 50)).by("a", (0, 100), (9, 50), partition=1),
    # one request of the owner goes back in two partitions. Only in one of them, the former owner had been near that
    Commits("seek-in-two").by("a", (0, 100)).by("b", (60, 120), (65, 150), (70, 105), (75, 170))
    .by("a", (0, 100), partition=1).by("b", (60, 120), (65, 150), (70, 140), (75, 170), partition=1),
    # in one of them, the commit before looks like that of a former owner
    Commits("seek-to-where-one-was").by("a", (0, 100)).by("b", (55, 156), (60, 185), (65, 210), (70, 174), (75, 231))
    .by("a", (0, 100), partition=1).by("b", (55, 150), (60, 171), (65, 222), (70, 184), (75, 235), partition=1),
)  # fmt: skip


def made(engine: Engine) -> DataFrame:
    commits = [row for one in (*HISTORIES.values(), *SEVERAL) for row in one.rows]
    ends = ends_of(engine, ("short", 0, 40, 90), ("old", 0, 40, 3))
    names = ("group", "log_offset", "topic_id")
    ids = [{name: one[name] for name in names} for one in commits if "topic_id" in one]
    reported = ({name: value for name, value in one.items() if name != "topic_id"} for one in commits)
    placed = table_of(engine, "commits", reported)
    placed = placed.join(engine.frame(pa.Table.from_pylist(ids, IDS)), ["group", "log_offset"], "left")
    return regressions(walked(placed, ends))


@pytest.fixture(scope="module")
def found(engine: Engine) -> Found:
    """The rows by group."""
    rows = [row.asDict() for row in collected(made(engine))]
    by_group: Found = {}
    for row in sorted(rows, key=lambda row: (row["log_offset"], row["partition"])):
        by_group.setdefault(row["group"], []).append(row)
    return by_group


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        ("seek", [("rewind", 200, 120)]),
        ("seek-by-little", [("rewind", 120, 110)]),
        ("to-the-beginning", [("rewind", 100, 0)]),
        ("by-a-tool", [("reset", 100, 40)]),
        ("without-members", [("reset", 100, 90)]),
        ("expired", [("deleted", 100, 30)]),
        ("compacted", [("rewind", 100, 50)]),
        ("compacted-beginning", [("reset", 100, 0)]),
        ("zombie", [("zombie", 150, 105)]),
        ("seek-in-two", [("rewind", 150, 105)]),
        ("seek-to-where-one-was", [("rewind", 222, 184)]),
        ("zombie-again", [("zombie", 150, 100)]),
        ("zombie-per-record", [("zombie", 150, 101)]),
        ("zombie-of-before", [("zombie", 150, 90)]),
        ("zombie-ahead", [("zombie", 180, 120)]),
        ("zombie-late", [("zombie", 9_000, 110)]),
        ("seek-after-hours", [("rewind", 9_000, 8_900)]),
        ("new-owner-lower", [("rewind", 100, 60)]),
        ("static-restart", [("rewind", 150, 120)]),
        ("huge", [("rewind", 2**63 - 2, -(2**63))]),
        ("at-once", [("reset", 100, 50)]),
        ("at-once-unknown", [("reset", 100, 50)]),
        ("at-once-by-one", [("rewind", 100, 50)]),
        ("two-write", [("second_application", 335, 50)]),
        ("two-write-with-members", [("second_application", 335, 50)]),
        ("come-again", [("unknown", 974, 25)]),
        ("a-stranger", [("second_application", 100, 20)]),
        ("own-place", [("rewind", 100, 60)]),
        ("own-places", [("rewind", 150, 110)]),
        ("seek-soon-after", [("rewind", 300, 275)]),
        ("new-owner-in-an-epoch", [("rewind", 100, 85)]),
        ("alone-restarted", [("rewind", 100, 60)]),
        ("alone-reset", [("reset", 100, 60)]),
        ("alone-reset-meanwhile", [("reset", 100, 60)]),
        ("alone-not-known", [("unknown", 100, 60)]),
        ("alone-cut-off", [("unknown", 100, 60)]),
        ("alone-all-at-once", [("unknown", 100, 60)]),
        ("alone-partitions", [("rewind", 100, 60)]),
        ("made-again", [("topic_recreated", 100, 7)]),
        ("made-again-by-tombstones", [("topic_recreated", 100, 7)]),
        ("made-again-and-empty", [("topic_recreated", 100, 7)]),
        ("same-topic", [("rewind", 100, 7)]),
        ("beyond-the-end", [("topic_recreated", 100, 7)]),
        ("once-beyond-the-end", [("rewind", 100, 7)]),
        ("beyond-an-old-end", [("rewind", 100, 7)]),
        ("twice", [("rewind", 100, 50), ("rewind", 300, 200)]),
    ],
)
def test_each_commit_that_went_back_has_its_cause(found: Found, group: str, wanted: list[tuple[str, int, int]]) -> None:
    rows = found[group]
    assert [(row["cause"], row["from_offset"], row["to_offset"]) for row in rows] == wanted
    assert all(row["back"] == min(row["from_offset"] - row["to_offset"], 2**63 - 1) for row in rows)


def test_equal_higher_and_first_commits_are_no_regressions(found: Found) -> None:
    assert not found.keys() & {"forward", "deleted-and-on", "first-after-deletion"}


def test_a_regression_by_a_recreated_topic_names_no_member(found: Found) -> None:
    assert [(row["member_id"], row["client_id"]) for row in found["made-again"]] == [(None, None)]


def test_a_zombie_regression_names_the_former_owner(found: Found) -> None:
    names = {group: (rows[0]["member_id"], rows[0]["client_id"]) for group, rows in found.items()}
    assert names["zombie"] == names["zombie-ahead"] == ("a-1", "a")
    assert names["seek-after-hours"] == ("b-1", "b")
    assert names["by-a-tool"] == (None, None)
    assert (found["zombie"][0]["time_ms"], found["zombie"][0]["log_offset"]) == (ms(70), 3)


def test_one_incident_is_one_row_with_its_partitions(found: Found) -> None:
    (one,) = found["own-places"]
    assert (one["partition"], one["commits"], one["time_ms"], one["until_ms"]) == (1, 2, ms(9), ms(10))
    inside = [(each["partition"], each["from_offset"], each["to_offset"], each["back"]) for each in one["partitions"]]
    assert inside == [(0, 15, 0, 15), (1, 150, 110, 40)]
    assert one["client_id"] is None  # two members did
    (two,) = found["two-write"]
    assert (two["commits"], two["until_ms"] - two["time_ms"], len(two["partitions"])) == (4, 20_000, 1)


OF_PRODUCERS = {
    # the former owner's transaction is committed after the partition moved to b
    "zombie": Commits("zombie").by("a", (0, 100), producer_id=1).by("b", (60, 120), (65, 150), producer_id=2)
    .by("b", (70, 60), producer_id=1).by("b", (75, 70), producer_id=2),
    # b itself goes back, in a way that looks like a zombie's step back and like its step forward
    "rewind": Commits("rewind").by("a", (0, 100), producer_id=1)
    .by("b", (60, 120), (65, 150), (70, 105), (75, 170), producer_id=2),
    "rewind-ahead": Commits("rewind-ahead").by("a", (0, 100), producer_id=1)
    .by("b", (10, 180), (15, 120), (20, 140), producer_id=2),
    # the same owner, restarted: its earlier process committed 180 when the new one had read 100 already
    "fenced": Commits("fenced").by("a", (0, 100), (5, 180), producer_id=3).by("a", (9, 120), (20, 140), producer_id=4),
    "not-fenced": Commits("not-fenced").by("a", (0, 100), (5, 180), producer_id=5)
    .by("a", (9, 120), (20, 140), producer_id=4),
    # a program that is no member commits in transactions; the member, which commits rarely, does not
    "stranger": Commits("stranger").by("a", (0, 100)).by("a", (5, 3), (6, 8), producer_id=6),
}  # fmt: skip


def test_the_producer_distinguishes_a_zombie_from_a_rewind(engine: Engine) -> None:
    rows = [row | {"producer_epoch": 0} for one in OF_PRODUCERS.values() for row in one.rows]
    schema = pa.schema([*TABLES["commits"], ("producer_id", pa.int64()), ("producer_epoch", pa.int32())])
    by_producers = engine.frame(pa.Table.from_pylist(rows, schema))
    since = Commits("x").by("a", (7, 0)).rows[0]["time_ms"]
    replaced = fenced(table_of(engine, "transactions", [{"producer_id": 3, "producer_epoch": 0, "fenced_ms": since}]))
    found = {
        row["group"]: (row["cause"], row["client_id"])
        for row in collected(regressions(walked(by_producers, None, replaced)))
    }
    assert found == {
        "zombie": ("zombie", "a"),
        "rewind": ("rewind", "b"),
        "rewind-ahead": ("rewind", "b"),
        "fenced": ("zombie", "a"),
        "not-fenced": ("rewind", "a"),
        "stranger": ("second_application", None),
    }
