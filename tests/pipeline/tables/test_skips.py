"""The table `skips`: offsets that went forward, though nobody read the records."""

from __future__ import annotations

from pyspark.sql import DataFrame

from muster.pipeline.tables.commits import OF_ENDS, OF_LOG, walked
from muster.pipeline.tables.skips import skips
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ends_of, ms, table_of


def made(engine: Engine) -> DataFrame:
    histories = [
        Commits("to-the-end").by("a", (0, 100)).by(None, (60, 145), members=0).by("a", (90, 150)),
        Commits("at-last").by("a", (0, 100)).by(None, (60, 145), members=0),
        Commits("to-the-beginning").by("a", (0, 100)).by(None, (60, 40), members=0).by("a", (90, 60)),
        Commits("back-and-forth").by("a", (0, 145)).by(None, (60, 40), (70, 145), members=0).by("a", (90, 150)),
        Commits("read-before").by("a", (0, 145), (5, 40)).by(None, (70, 145), members=0).by("a", (90, 150)),
        Commits("by-a-member").by("a", (0, 100), (5, 900), (10, 910)),
        Commits("read-alone").by("a", (0, 100)).by(None, (60, 145), (65, 150), members=0),
        Commits("without-members").by(None, (0, 100), (5, 145), members=0),
        Commits("mid-life").by("a", (0, 100), members=None).by(None, (60, 145), members=0, generation=2),
        Commits("new").by("a", (0, 100), members=None).by(None, (60, 145), members=0, generation=1),
        Commits("deleted").by("a", (0, 100)).deleted(30).by(None, (60, 145), members=0),
    ]
    rows = [row for one in histories for row in one.rows]
    return skips(walked(table_of(engine, "commits", rows), None, wanted=(OF_LOG,)))


def test_only_a_tool_that_moves_an_offset_of_an_empty_group_forward_skips_records(engine: Engine) -> None:
    assert sorted(tuple(row) for row in collected(made(engine))) == [
        ("at-last", "t", 0, ms(60), 100, 145, None),
        ("mid-life", "t", 0, ms(60), 100, 145, None),
        ("to-the-end", "t", 0, ms(60), 100, 145, None),
    ]


def slow(name: str, *more: int, topic: str = "t") -> Commits:
    """A member reads 50 records in each 5 s, and is far behind. Then it commits `more`."""
    offsets = [*range(0, 500, 50), *more]
    return Commits(name, topic).by("a", *((5.0 * at, offset) for at, offset in enumerate(offsets)))


def jumps(engine: Engine) -> DataFrame:
    """`commits-at-last`: it commits one offset for 40 s, as if a record fails, and may have read on meanwhile."""
    histories = [
        slow("skips", 1_450, 1_500, 1_550),
        slow("reads-on", 1_450, 2_450, 3_450),
        slow("catches-up", 5_900, 5_950, 6_000, topic="near"),
        slow("reads-a-little-faster", 600, 650, 700),
        slow("at-last", 1_450),
        slow("commits-at-last", *[450] * 8, 1_450, 1_500, 1_550),
        Commits("keeps-up", "new").by("a", *((5.0 * at, 50 * at) for at in range(10)), (50, 1_450), (55, 1_500)),
        Commits("of-another").by("a", *((5.0 * at, 50 * at) for at in range(10))).by("b", (50, 1_450), (55, 1_500)),
    ]
    rows = [row for one in histories for row in one.rows]
    ends = [
        ("t", 0, 9_000, 0),
        ("near", 0, 5_960, 0),
        *(("new", 0, 50 * at + 1_400 * (at > 9), 5.0 * at) for at in range(12)),
    ]
    return skips(walked(table_of(engine, "commits", rows), ends_of(engine, *ends), wanted=(OF_ENDS,)))


def test_a_member_that_is_behind_and_once_goes_forward_far_too_fast_skips_records(engine: Engine) -> None:
    assert [tuple(row) for row in collected(jumps(engine))] == [("skips", "t", 0, ms(50), 450, 1_450, "a")]


def in_turn(name: str, *leaps: tuple[float, int, int]) -> Commits:
    """A member reads 10 records in each second, in turns of 10 s from two partitions, and is far behind.

    `leaps`: (time, records, partition). With its commit then, the member goes forward by so many records.
    """
    made, offsets = Commits(name), [0, 0]
    for at in range(120):
        offsets[at // 10 % 2] += 10
        for when, records, partition in leaps:
            offsets[partition] += records if at == when else 0
        for partition, offset in enumerate(offsets):
            made.by("a", (float(at), offset), partition=partition)
    return made


def soon(name: str, steps: int) -> Commits:
    """A member reads 10 records in each second from one partition, then a few from two others. Then it skips 150."""
    made = Commits(name).by("a", *((float(at), 10 * at) for at in range(60 - steps, 60)))
    made.by("a", *((float(at), max(at - 57, 0)) for at in range(60)), partition=1)
    made.by("a", *((float(at), max(at - 57, 0)) for at in range(60)), partition=2)
    for partition, offset in ((0, 740), (1, 152), (2, 152)):
        made.by("a", (60.0, offset), (61.0, offset), partition=partition)
    return made


def leaps(engine: Engine) -> DataFrame:
    histories = [
        in_turn("both", (95, 150, 0), (95, 150, 1)),
        in_turn("one", (95, 150, 0)),
        in_turn("neither"),
        soon("soon", 10),
        soon("too-soon", 2),
    ]
    rows = [row for one in histories for row in one.rows]
    ends = ends_of(engine, ("t", 0, 9_000, 0), ("t", 1, 9_000, 0), ("t", 2, 9_000, 0))
    return skips(walked(table_of(engine, "commits", rows), ends, wanted=(OF_ENDS,)))


def test_a_member_that_goes_forward_in_several_partitions_with_one_commit_skips_records(engine: Engine) -> None:
    """It reads the other partition until then. In one partition only, it perhaps tried a record again, and read on.

    In one of the partitions, several commits must show how fast it reads.
    """
    assert sorted(tuple(row) for row in collected(leaps(engine))) == [
        ("both", "t", 0, ms(95), 500, 650, "a"), ("both", "t", 1, ms(95), 450, 610, "a"),
        ("soon", "t", 0, ms(60), 590, 740, "a"), ("soon", "t", 1, ms(60), 2, 152, "a"),
        ("soon", "t", 2, ms(60), 2, 152, "a"),
    ]  # fmt: skip
