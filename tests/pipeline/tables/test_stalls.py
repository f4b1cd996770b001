from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame

from muster.pipeline.episodes.silence import Silence
from muster.pipeline.tables.commits import walked
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.tables.stalls import is_long, stalls, stalls_of
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ends_of, ms, table_of

Found = dict[str, list[dict[str, Any]]]


def every(step_s: float, offsets: list[int], start_s: float = 0) -> list[tuple[float, int]]:
    """Commits at a regular interval."""
    return [(start_s + step_s * index, offset) for index, offset in enumerate(offsets)]


def climbing(count: int, step: int = 10, start: int = 0) -> list[int]:
    return [start + step * index for index in range(count)]


LAST_S = 1_000
FILLER = Commits("filler", "filler").by("x", (LAST_S, 1))
"""The log continues until then."""

HISTORIES = (
    FILLER,
    # up to date all the time, until the end of the log
    Commits("steady", "steady").by("a", *every(5, climbing(201))),
    # commits the same offset, and there is nothing to read
    Commits("idle", "idle").by("a", *every(5, [50] * 201)),
    # there is something to read from the beginning on
    Commits("stuck", "stuck").by("a", *every(5, [*climbing(10), *[100] * 40, *climbing(152, start=500)])),
    # continued to commit after a pause of 300 s, in which another group read on
    Commits("paused", "paused").by("a", *every(5, climbing(20)), *every(5, climbing(122, start=790), 395)),
    Commits("reader", "paused").by("r", *every(5, climbing(201))),
    # dead for ever
    Commits("dead", "dead").by("a", *every(5, climbing(20))),
    # up to date, then a record came: 100 s are allowed for it
    Commits("lazy", "lazy").by("a", *every(5, climbing(20)), (640, 200), (995, 300)),
    # falls further behind with each commit
    Commits("slow", "slow").by("a", *every(50, climbing(21))),
    # back, and then at the old offset again
    Commits("back", "back").by("a", *every(5, [*climbing(10), 40, 60, 80, 90, 100, *climbing(186, start=110)])),
    # back for ever: the window forgets the old offset
    Commits("far-back", "far-back").by("a", *every(5, [*climbing(12, start=9_000), *climbing(189)])),
    # its offset was deleted
    Commits("deleted", "deleted").by("a", *every(5, [50, 40, 30])).deleted(60),
    Commits("young", "young").by("a", (0, 10), (5, 20)),
    Commits("single", "single").by("a", (0, 10)),
    # many commits in a second: the last one counts
    Commits("busy", "busy").by("a", *((index / 10, index) for index in range(10_001) if index % 10 > 6)),
    # one of two partitions of a member stands still, with the same commits or with none; then another member has it
    Commits("held", "held")
    .by("a", *every(5, climbing(201)))
    .by("a", *every(5, [*climbing(10), *[95] * 10, *climbing(180, start=500)]), partition=1)
    .by("a", *every(5, climbing(10)), (100, 500), (995, 900), partition=2),
    # rare commits; while the group is restarted they are frequent
    Commits("calm", "calm")
    .by(
        "a",
        *every(14, climbing(60)),
        *every(1, climbing(12, start=600), 840),
        (890, 900),
        *every(14, climbing(7, start=905), 902),
    )
    .by("a", *every(5, climbing(201)), partition=1),
    # the end of its topic is not known
    Commits("unknown", "unknown").by("a", *every(5, [*[50] * 15, 40])),
)


def made(engine: Engine) -> DataFrame:
    slow_ends = [("slow", 0, 100 + 30 * index, 50.0 * index - 1) for index in range(21)]
    lazy_ends = [("lazy", 0, 190, 90), ("lazy", 0, 190, 550), ("lazy", 0, 200, 560), ("lazy", 0, 300, 995)]
    ends = ends_of(
        engine,
        ("steady", 0, 2_000, LAST_S),
        ("idle", 0, 50, 0),
        ("stuck", 0, 20_000, 0),
        ("paused", 0, 2_000, LAST_S),
        ("dead", 0, 900, LAST_S),
        *lazy_ends,
        *slow_ends,
        ("back", 0, 1_960, 900),
        ("far-back", 0, 10_000, 0),
        ("deleted", 0, 50, 0),
        ("young", 0, 90, 0),
        ("single", 0, 90, 0),
        ("busy", 0, 9_999, LAST_S),
        *(("calm", partition, 10 * place, 5.0 * place) for partition in (0, 1) for place in range(201)),
        *(("held", 0, 10 * place, 5.0 * place) for place in range(201)),
        *(("held", partition, 10 * place, 5.0 * place) for partition in (1, 2) for place in range(201)),
    )
    commits = table_of(engine, "commits", (row for one in HISTORIES for row in one.rows))
    return stalls(walked(commits, ends))


@pytest.fixture(scope="module")
def found(engine: Engine) -> Found:
    """The rows by group, in the order of time."""
    table = made(engine)
    assert table.columns == TABLES["stalls"].names
    by_group: Found = {one.group: [] for one in HISTORIES}
    for row in sorted((row.asDict() for row in collected(table)), key=lambda row: row["start_ms"]):
        by_group[row["group"]].append(row)
    return by_group


def summarized(rows: list[dict[str, Any]]) -> list[tuple[str, int, int | None]]:
    """Status, start and end, in seconds."""
    return [
        (row["status"], (row["start_ms"] - ms(0)) // 1000, row["end_ms"] and (row["end_ms"] - ms(0)) // 1000)
        for row in rows
    ]


@pytest.mark.parametrize("group", ["steady", "idle", "busy", "reader", "lazy"])
def test_a_healthy_group_is_ok(found: Found, group: str) -> None:
    assert summarized(found[group]) == [("OK", 0, None)]
    assert found[group][0]["lag"] == 0


def test_repeated_commits_of_one_offset_with_lag_are_a_stall(found: Found) -> None:
    # it has only one partition: nothing shows that it works, and three minutes must pass
    assert summarized(found["stuck"]) == [("OK", 0, None), ("STALL", 50, 250)]
    first = found["stuck"][1]
    assert (first["first_offset"], first["last_offset"], first["complete"]) == (100, 100, 1.0)
    assert (first["lag"], first["lag_known"], first["client_id"]) == (19_900, True, "a")


def test_silence_longer_than_the_window_is_a_stop(found: Found) -> None:
    # the last commit of offset 190 came at 95 s; the other group was beyond it at 100 s, and 100 s are allowed
    assert summarized(found["paused"]) == [("OK", 0, None), ("STOP", 95, 395)]
    assert found["paused"][1]["lag"] == 790 - 190


def test_a_stop_without_further_commits_lasts_to_the_end(found: Found) -> None:
    assert summarized(found["dead"]) == [("STOP", 95, None)]
    assert (found["dead"][0]["last_offset"], found["dead"][0]["lag"]) == (190, 710)


def test_commits_with_a_growing_lag_are_a_warning(found: Found) -> None:
    assert summarized(found["slow"]) == [("WARN", 450, None)]
    assert (found["slow"][0]["first_offset"], found["slow"][0]["lag"]) == (90, 500)


def test_a_rewind_lasts_until_the_old_offset_or_the_end_of_the_window(found: Found) -> None:
    assert summarized(found["back"]) == [("REWIND", 50, 65), ("OK", 65, None)]
    assert summarized(found["far-back"]) == [("REWIND", 60, 105), ("OK", 105, None)]
    assert (found["back"][0]["first_offset"], found["back"][0]["last_offset"]) == (40, 80)


def test_a_deletion_ends_a_status(found: Found) -> None:
    assert summarized(found["deleted"]) == [("REWIND", 5, 60)]
    assert (found["deleted"][0]["complete"], found["deleted"][0]["lag"]) == (0.3, None)


def test_few_commits_are_judged_only_at_the_end(found: Found) -> None:
    assert summarized(found["young"]) == [("STOP", 5, None)]
    assert found["young"][0]["complete"] == 0.2
    assert summarized(found["single"]) == [("OK", 0, None)]
    assert found["single"][0]["complete"] == 0.1


def test_without_the_end_of_a_topic_only_rewinds_are_found(found: Found) -> None:
    assert summarized(found["unknown"]) == [("REWIND", 75, None)]
    assert (found["unknown"][0]["lag"], found["unknown"][0]["lag_known"]) == (None, False)


def test_without_any_ends_only_rewinds_are_found(engine: Engine) -> None:
    rows = [row for one in HISTORIES if one.group in ("stuck", "back", "dead") for row in one.rows]
    table = collected(stalls(walked(table_of(engine, "commits", rows), None)))
    assert sorted((row.group, row.status, row.lag_known) for row in table) == [
        ("back", "OK", False),
        ("back", "REWIND", False),
        ("dead", "OK", False),
        ("stuck", "OK", False),
    ]


@pytest.mark.parametrize(("earlier", "repeated", "other", "status"), [
    (30, 60, 201, ["STALL"]),
    (30, 22, 201, []),  # 110 s are too short
    (10, 60, 201, ["STALL"]),
    (5, 60, 201, []),  # nobody knows how it moved before
    (30, 60, 40, []),  # the other partition does not move either
])  # fmt: skip
def test_without_ends_an_offset_that_is_committed_very_often_is_a_stall(
    engine: Engine, earlier: int, repeated: int, other: int, status: list[str]
) -> None:
    stuck = Commits("stuck", "t").by("a", *every(5, climbing(other)))
    stuck.by("a", *every(5, [*climbing(earlier), *[900] * repeated, *climbing(20, start=2_000)]), partition=1)
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", stuck.rows), None)))]
    found = [row for row in rows if row["status"] in ("STALL", "STOP")]
    assert [row["status"] for row in found] == status
    assert {(row["lag"], row["lag_known"], row["last_offset"]) for row in found} <= {(None, False, 900)}


def test_without_ends_a_stall_ends_with_the_last_commit_of_its_offset(engine: Engine) -> None:
    stuck = Commits("stuck", "t").by("a", *every(5, [*climbing(30), *[900] * 60]), partition=1)
    stuck.by("a", *every(5, climbing(201)))
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", stuck.rows), None)))]
    (found,) = [row for row in rows if row["status"] in ("STALL", "STOP")]
    assert (found["start_ms"], found["end_ms"]) == (ms(150), ms(445))


@pytest.mark.parametrize(("owner", "earlier", "partitions"), [("a", 30, [1, 2]), ("b", 30, []), ("a", 40, [])])
def test_without_ends_offsets_that_several_members_or_one_in_turn_repeat_are_no_stall(
    engine: Engine, owner: str, earlier: int, partitions: list[int]
) -> None:
    """`earlier`: the number of commits before those of one offset."""
    stuck = Commits("stuck", "t").by("a", *every(5, climbing(201)))
    stuck.by("a", *every(5, [*climbing(30), *[900] * 60, *climbing(20, start=2_000)]), partition=1)
    stuck.by(owner, *every(5, [*climbing(earlier), *[900] * 60, *climbing(20, start=2_000)]), partition=2)
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", stuck.rows), None)))]
    assert sorted(row["partition"] for row in rows if row["status"] in ("STALL", "STOP")) == partitions


def test_a_stalled_partition_is_found_while_its_member_works_elsewhere(found: Found) -> None:
    stalled = [(row["partition"], *one) for row, one in zip(found["held"], summarized(found["held"]), strict=True)]
    assert [one for one in stalled if one[1] in ("STALL", "STOP")] == [
        (2, "STOP", 45, 100),
        (1, "STALL", 50, 100),
        (2, "STOP", 250, 995),  # there was nothing more to read before
    ]
    assert {row["group_status"] for row in found["held"]} == {"OK"}
    assert {row["group_status"] for row in found["dead"]} == {"STOP"}


def test_a_partition_without_an_owner_does_not_stall(engine: Engine) -> None:
    """The partition was given up at 60 s; 15 s do not count."""
    commits = [row | {"generation": 1} for one in HISTORIES if one.group == "held" for row in one.rows]
    ends = ends_of(engine, *(("held", partition, 10 * at, 5.0 * at) for partition in (0, 1, 2) for at in range(201)))
    had = [(0, 0, None), (1, 0, 60), (2, 0, 60), (2, 300, None)]
    owned = table_of(
        engine,
        "ownership",
        (
            {"group": "held", "topic": "held", "partition": partition, "member_id": "a-1", "start_ms": ms(since),
             "end_ms": None if until is None else ms(until)}
            for partition, since, until in had
        ),
    )  # fmt: skip
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", commits), ends), owned))]
    assert summarized([row for row in rows if row["status"] in ("STALL", "STOP")]) == [("STOP", 300, 995)]


def test_rare_commits_are_no_stall(engine: Engine) -> None:
    """The group commits every four minutes. Then it stops for half an hour, which is longer than a pause between two of
    its commits.
    """
    seldom = Commits("seldom", "seldom").by("a", *every(240, climbing(20, 2_400)), (6_400, 60_000), (6_640, 66_000))
    ends = ends_of(engine, *(("seldom", 0, 10 * at, float(at)) for at in range(0, 6_700, 20)))
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", seldom.rows), ends)))]
    assert summarized([row for row in rows if row["status"] in ("STALL", "STOP")]) == [("STOP", 4_560, 6_400)]


def test_rare_commits_after_a_restart_are_no_stall(engine: Engine) -> None:
    """Eight commits follow each other, of members that give partitions up; then it commits every four minutes again."""
    usual = [(240.0 * at, 2_400 * at) for at in range(1, 11)]
    restart = [(2_400.0 + 20 * at, 24_000 + 200 * at) for at in range(1, 9)]
    after = [(2_560.0 + 240 * at, 25_600 + 2_400 * at) for at in range(1, 5)]
    restarted = Commits("restarted", "restarted").by("a", *usual, *restart, *after)
    ends = ends_of(engine, *(("restarted", 0, 10 * at, float(at)) for at in range(0, 3_521, 20)))
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", restarted.rows), ends)))]
    assert [row["status"] for row in rows if row["status"] in ("STALL", "STOP")] == []


def test_rare_commits_after_a_long_restart_are_no_stall(engine: Engine) -> None:
    """Twelve members restart, one after the other; the commits after that are as rare as before."""
    restarted = Commits("restarted", "t").by("a", *((240.0 * at, 2_400 * at) for at in range(1, 11)))
    for at in range(1, 13):
        restarted.by(f"b{at}", (2_400.0 + 20 * at, 24_000 + 200 * at))
    restarted.by("c", *((2_640.0 + 240 * at, 26_400 + 2_400 * at) for at in range(1, 5)))
    ends = ends_of(engine, *(("t", 0, 10 * at, float(at)) for at in range(0, 3_601, 20)))
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", restarted.rows), ends)))]
    assert [row["status"] for row in rows if row["status"] in ("STALL", "STOP")] == []


def test_silence_between_two_members_is_no_usual_interval(engine: Engine) -> None:
    """After five minutes without a member, 200 s of silence are a stop for a member that commits every 5 s."""
    away = Commits("away", "t").by("a", *every(5, climbing(20, 50)))
    away.by("b", *every(5, climbing(20, 50, 4_000), 400), (695, 6_950))
    ends = ends_of(engine, *(("t", 0, 10 * at, float(at)) for at in range(0, 701, 5)))
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", away.rows), ends)))]
    assert summarized([row for row in rows if row["status"] in ("STALL", "STOP")]) == [
        ("STOP", 95, 400),
        ("STOP", 495, 695),
    ]


def test_an_unread_transaction_marker_is_no_stall(engine: Engine) -> None:
    """No record follows the marker. If a record follows, it is a stall."""
    some = [Commits(name, name).by("a", *every(5, [*climbing(10), *[100] * 60])) for name in ("marker", "growing")]
    ends = ends_of(engine, ("marker", 0, 101, 50), *(("growing", 0, 100 + at, 50.0 + 30 * at) for at in range(10)))
    commits = table_of(engine, "commits", (row for one in some for row in one.rows))
    rows = [row.asDict() for row in collected(stalls(walked(commits, ends)))]
    assert {row["group"] for row in rows if row["status"] in ("STALL", "STOP")} == {"growing"}


def test_the_end_of_an_empty_topic_is_not_used_as_the_logs_end(engine: Engine) -> None:
    """The time of that end is the time of its file: by it, every group would have been silent for a day."""
    well = Commits("well", "well").by("a", *every(5, climbing(20)))
    ends = ends_of(engine, *(("well", 0, 10 * at, 5.0 * at) for at in range(21)), ("empty", 0, 0, 90_000))
    rows = [row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", well.rows), ends)))]
    assert summarized(rows) == [("OK", 0, None)]


def test_a_brokers_fast_clock_makes_no_stall(engine: Engine) -> None:
    """The last of its commits have the correct time again."""
    well = Commits("well", "well").by("a", *every(5, climbing(41)))
    ahead = Commits("ahead", "ahead").by("b", *every(5, climbing(20)), (7_300, 200), (7_305, 210), (200, 400))
    ends = ends_of(engine, *(("well", 0, 10 * at, 5.0 * at) for at in range(41)))
    rows = [
        row.asDict() for row in collected(stalls(walked(table_of(engine, "commits", [*well.rows, *ahead.rows]), ends)))
    ]
    assert summarized([row for row in rows if row["group"] == "well"]) == [("OK", 0, None)]


_CANDIDATE = {
    "group": "g", "log_partition": 0, "topic": "t", "partition": 0, "member_id": "m", "client_id": "c",
    "generation": 1, "committed_offset": 100, "commits": 10, "first_ms": 955_000, "last_ms": 1_000_000,
    "again_ms": 955_000, "time_ms": 1_000_000, "longest_ms": 5_000, "calm_ms": 5_000, "silence_ms": 5_000,
    "beyond_ms": 1_000_000, "not_beyond_ms": 999_000, "surely_ms": None, "end_then": 101, "known_end": 500,
    "end_ms": 1_125_000, "run_ms": 1_000_000, "run_commits": 1, "is_last": False, "from_ms": 1_000_000,
    "to_ms": 1_150_000, "until_ms": 3_000_000,
}  # fmt: skip
"""A partition without a commit for 150 s, with unread records."""


_OTHER = {"other": [(1_000_000 + at, 0) for at in range(-200_000, 150_000, 5_000)]}
"""Another member makes progress meanwhile."""


def _found(silences: list[Silence], since_ms: int = 800_000, **other: int) -> list[str]:
    """`since_ms`: from then on, another member makes progress."""
    others = {"other": [one for one in _OTHER["other"] if one[0] >= since_ms]}
    return [one["status"] for one in stalls_of([], [_CANDIDATE | other], others, None, silences)]


def test_a_partition_does_not_stall_while_records_come_late() -> None:
    """No member makes steady progress: perhaps the producers wait. After a silence, they may do so for longer."""
    tried = _CANDIDATE | {"run_commits": 8}
    assert list(stalls_of([], [tried | {"to_ms": 1_095_000}], {"other": _OTHER["other"][:3]}, None)) == []
    assert list(stalls_of([], [_CANDIDATE | {"to_ms": 1_105_000}], {}, None)) != []
    after = [Silence(900_000, 999_000, 5)]
    assert list(stalls_of([], [_CANDIDATE | {"to_ms": 1_150_000}], {}, None, after)) == []
    assert list(stalls_of([], [_CANDIDATE | {"to_ms": 1_300_000}], {}, None, after)) != []


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"surely_ms": 1_000_500}, ["STOP"]),
        ({}, []),
        ({"surely_ms": 1_085_000}, []),
        ({"surely_ms": 1_000_500, "end_then": 145}, []),
        ({"surely_ms": 1_000_500, "to_ms": 1_208_000}, []),
        ({"surely_ms": 1_012_000}, []),
    ],
)
def test_a_member_that_hangs_before_and_after_a_silence_stalls_if_records_were_sent_in_time(
    facts: dict[str, int], status: list[str]
) -> None:
    """It kept up, and was silent for 20 s. Then the broker was away for 100 s. The member commits again after 110 s.

    No member of its group does so earlier. Nobody knows whether records came in time; or they came late; or it may
    read a large batch; or members may not be back yet; or it was not silent for long before.
    """
    away = [Silence(1_020_000, 1_120_000, 5)]
    one = _CANDIDATE | {"to_ms": 1_230_000} | facts
    owned = {("t", 0): [(800_000, None, "m")]}
    assert [row["status"] for row in stalls_of([], [one], {}, owned, away)] == status


@pytest.mark.parametrize(("surely_ms", "status"), [(1_003_000, ["STOP"]), (None, [])])
def test_all_members_hang_soon_after_a_silence_if_records_were_sent_in_time(
    surely_ms: int | None, status: list[str]
) -> None:
    """Nobody makes progress for 115 s. The broker was back 50 s before."""
    away = [Silence(800_000, 950_000, 5)]
    one = _CANDIDATE | {"surely_ms": surely_ms, "to_ms": 1_115_000}
    assert [row["status"] for row in stalls_of([], [one], {}, None, away)] == status


@pytest.mark.parametrize(("step_ms", "status"), [(5_000, ["STOP"]), (15_000, [])])
def test_a_silent_owner_whose_group_goes_on_stalls_sooner(step_ms: int, status: list[str]) -> None:
    """It committed only twice, and is silent for 70 s. Other members commit often enough, or only every 15 s."""
    progress = {"other": [(1_000_000 + at, 0) for at in range(0, 70_000, step_ms)]}
    one = _CANDIDATE | {"commits": 2, "first_ms": 995_000, "to_ms": 1_070_000}
    assert [row["status"] for row in stalls_of([], [one], progress, None)] == status


@pytest.mark.parametrize(("others", "status"), [(range(45_000, 171_000, 25_000), ["STOP"]), ((45_000, 70_000), [])])
def test_an_owner_that_committed_once_before_a_silence_hangs_if_rare_commits_of_others_go_on(
    others: Sequence[int], status: list[str]
) -> None:
    """The group commits every 25 s. The broker was away for 140 s; after that, the owner is silent for 150 s."""
    away = [Silence(1_006_000, 1_148_000, 5)]
    before = [(at, 0) for at in range(850_000, 1_001_000, 25_000)]
    progress = {"other": [*before, *((1_125_000 + at, 0) for at in others)]}
    one = _CANDIDATE | {"commits": 1, "first_ms": 1_000_000, "longest_ms": None, "calm_ms": None, "silence_ms": None}
    found = stalls_of([], [one | {"to_ms": 1_298_000}], progress, {("t", 0): [(900_000, None, "m")]}, away)
    assert [row["status"] for row in found] == status


def test_a_member_that_committed_once_may_hang(engine: Engine) -> None:
    """The member of one partition commits once, and is silent for 200 s. The other one goes on.

    A time in which it stood still was not usual. So it stands still again after its second commit.
    """
    both = Commits("hangs", "hangs").by("a", *every(5, climbing(201))).by("b", (100, 200), (300, 600), partition=1)
    ends = ends_of(engine, *(("hangs", partition, 10 * at, 5.0 * at) for partition in (0, 1) for at in range(201)))
    rows = collected(stalls(walked(table_of(engine, "commits", both.rows), ends)))
    assert [(row.partition, row.start_ms) for row in rows if row.status == "STOP"] == [(1, ms(100)), (1, ms(300))]


def test_a_member_that_hangs_may_commit_the_same_offset_when_it_goes_on(engine: Engine) -> None:
    """Its silence is no usual interval."""
    both = Commits("hangs", "hangs").by("a", *every(5, climbing(201)))
    both.by("b", *every(5, climbing(20)), (300, 190), *every(5, climbing(20, start=600), 305), partition=1)
    ends = ends_of(engine, *(("hangs", partition, 10 * at, 5.0 * at) for partition in (0, 1) for at in range(201)))
    rows = collected(stalls(walked(table_of(engine, "commits", both.rows), ends)))
    stopped = [(row.partition, row.start_ms, row.end_ms) for row in rows if row.status == "STOP" and row.end_ms]
    assert stopped == [(1, ms(95), ms(305))]


def test_a_silence_of_all_groups_is_no_stall() -> None:
    away = [Silence(1_001_000, 1_121_000, 5)]
    assert _found([]) == ["STOP"]
    assert _found(away) == []
    # the partition stood still before the silence too
    assert _found(away, from_ms=800_000, run_ms=800_000, time_ms=800_000, first_ms=755_000, beyond_ms=800_000) == [
        "STOP"
    ]


@pytest.mark.parametrize(("run_ms", "status"), [(1_000_000, ["STALL"]), (998_000, [])])
def test_an_owner_that_commits_after_a_silence_is_back(run_ms: int, status: list[str]) -> None:
    """It commits the same offset for 70 s. If it began to do so before the end of the silence, this is too short."""
    away = [Silence(900_000, 999_000, 5)]
    assert _found(away, 1_030_000, run_ms=run_ms, run_commits=14, to_ms=1_070_000) == status


def test_of_two_owners_the_one_without_a_silence_counts() -> None:
    away = [Silence(880_000, 999_000, 5)]
    one = _CANDIDATE | {"from_ms": 870_000, "run_ms": 870_000, "to_ms": 1_114_000, "is_last": True}
    owned = {("t", 0): [(800_000, 1_000_500, "l"), (1_000_500, None, "m")]}
    found = list(stalls_of([], [one], _OTHER, owned, away))
    assert [(each["status"], each["start_ms"]) for each in found] == [("STOP", 1_000_500)]


@pytest.mark.parametrize(("back_ms", "status"), [(991_000, ["STOP"]), (1_020_000, [])])
def test_a_silent_owner_is_back_when_its_group_makes_progress_after_a_silence(back_ms: int, status: list[str]) -> None:
    """It kept the partition, and is silent for 110 s."""
    away = [Silence(900_000, 990_000, 5)]
    others = {"other": [(at, 0) for at in range(back_ms, 1_110_000, 5_000)]}
    one = _CANDIDATE | {"to_ms": 1_110_000}
    found = stalls_of([], [one], others, {("t", 0): [(0, None, "m")]}, away)
    assert [each["status"] for each in found] == status


@pytest.mark.parametrize(("had_ms", "status"), [(1_002_000, ["STOP"]), (950_000, [])])
def test_an_owner_that_got_its_partitions_after_a_silence_is_back(had_ms: int, status: list[str]) -> None:
    """It commits nothing for 110 s. An owner from before the silence perhaps needs some time until it is back."""
    away = [Silence(900_000, 999_000, 5)]
    others = {"other": [(at, 0) for at in range(1_040_000, 1_114_000, 5_000)]}
    one = _CANDIDATE | {"to_ms": 1_114_000, "from_ms": 998_000, "run_ms": 998_000}
    found = stalls_of([], [one], others, {("t", 0): [(had_ms, None, "m")]}, away)
    assert [each["status"] for each in found] == status


@pytest.mark.parametrize(("again_ms", "status"), [(1_060_000, ["STALL"]), (1_120_000, [])])
def test_an_owner_that_commits_an_offset_before_and_after_a_silence_is_back(again_ms: int, status: list[str]) -> None:
    """It does so from 20 s before the silence to 90 s after it. `again_ms`: the first of its last ten commits."""
    away = [Silence(950_000, 1_050_000, 5)]
    times = {"from_ms": 930_000, "beyond_ms": 930_000, "to_ms": 1_140_000, "time_ms": 1_138_000}
    assert _found(away, 1_100_000, run_ms=930_000, run_commits=30, again_ms=again_ms, **times) == status
    assert _found(away, run_ms=930_000, run_commits=30, again_ms=again_ms, **times) == ["STALL"]  # the group was back


@pytest.mark.parametrize(("old_ms", "status"), [(4_000, ["STOP"]), (90_000, [])])
def test_a_partition_that_waits_for_its_turn_does_not_stall(old_ms: int, status: list[str]) -> None:
    """For 150 s, its owner reads another partition: up to its end, or records that are as old, too."""
    progress = [(1_000_000 + at, old_ms) for at in range(5_000, 150_000, 5_000)]
    assert [one["status"] for one in stalls_of([], [_CANDIDATE], {"m": progress}, None)] == status


def test_the_owner_that_has_the_partition_now_shows_that_it_waits() -> None:
    """A new member got it, and reads another partition, whose records are as old."""
    progress = {"new": [(1_000_000 + at, 80_000) for at in range(5_000, 150_000, 5_000)]}
    owned = {("t", 0): [(0, 1_000_500, "m"), (1_000_500, None, "new")]}
    assert list(stalls_of([], [_CANDIDATE], _OTHER | progress, owned)) == []


def test_what_a_group_read_before_the_log_begins_does_not_stall_if_nobody_has_it_now() -> None:
    """The log begins in mid-life: the members at the time of the commit are not known. Now they read another topic."""
    one = _CANDIDATE | {"generation": None}
    assert list(stalls_of([], [one], _OTHER, {("u", 0): [(1_010_000, None, "m")]})) == []
    assert [row["status"] for row in stalls_of([], [one], _OTHER, {})] == ["STOP"]  # it never had members


@pytest.mark.parametrize(("run_commits", "since_ms", "status"), [(40, 2_000_000, ["STALL"]), (3, 2_000_000, []),
                                                                (40, 900_000, [])])  # fmt: skip
def test_a_record_that_fails_before_the_first_known_members_stands_still(
    run_commits: int, since_ms: int, status: list[str]
) -> None:
    """The log begins in mid-life. Somebody commits one offset again and again, and makes progress elsewhere."""
    progress = {None: [(1_000_000 + at, 0) for at in range(5_000, 150_000, 5_000)]}
    unknown = {"generation": None, "member_id": None, "client_id": None}
    one = _CANDIDATE | unknown | {"run_commits": run_commits, "time_ms": 1_149_000}
    found = stalls_of([], [one], progress, {("t", 0): [(since_ms, since_ms + 9_000, "m")]})
    assert [(row["status"], row["client_id"]) for row in found] == [(each, None) for each in status]


@pytest.mark.parametrize(("back_ms", "status"), [(1_130_000, ["STOP"]), (1_180_000, [])])
def test_an_owner_that_goes_on_elsewhere_after_a_silence_leaves_its_partition(back_ms: int, status: list[str]) -> None:
    """It got the partition 4 s before the silence, and never commits it."""
    away = [Silence(1_004_000, 1_120_000, 5)]
    progress = [(at, 0) for at in range(back_ms, 1_240_000, 5_000)]
    one = _CANDIDATE | {"commits": 1, "longest_ms": None, "calm_ms": None, "silence_ms": None, "to_ms": 1_240_000}
    found = stalls_of([], [one | {"first_ms": 1_000_000}], {"m": progress}, {("t", 0): [(0, None, "m")]}, away)
    assert [row["status"] for row in found] == status


def test_a_stall_across_a_silence_is_not_subtracted_twice() -> None:
    """A window of 600 s has a stall of 300 s, and in it a silence of 100 s. So commits come every 33 s."""
    away = [Silence(500_000, 600_000, 5)]
    window = {"first_ms": 400_000, "last_ms": 1_000_000, "longest_ms": 300_000, "to_ms": 1_150_000}
    one = _CANDIDATE | window
    assert is_long(one, 60_000, away, stood=[Silence(450_000, 750_000, 1)]) is False
    assert is_long(one | {"to_ms": 1_170_000}, 60_000, away, stood=[Silence(450_000, 750_000, 1)]) is True


def test_a_silence_does_not_make_a_wait_longer() -> None:
    """The partition waits for 50 s, while its owner reads records of others that are 30 s old. Then all are away."""
    progress = [(1_000_000 + at, 30_000) for at in range(5_000, 50_000, 5_000)]
    one = _CANDIDATE | {"to_ms": 1_195_000, "run_commits": 40, "first_ms": 1_040_000, "time_ms": 1_049_000}
    away = [Silence(1_050_000, 1_192_000, 5)]
    assert list(stalls_of([], [one], {"m": progress}, None, away)) == []


def test_records_that_came_after_a_silence_are_as_old_as_a_partition_that_waits() -> None:
    """It waits for 210 s besides the silence. Its owner reads others, whose records came after the silence."""
    progress = [(1_130_000 + at, at) for at in range(20_000, 195_000, 5_000)]
    away = [Silence(1_010_000, 1_130_000, 5)]
    assert list(stalls_of([], [_CANDIDATE | {"to_ms": 1_330_000}], {"m": progress}, None, away)) == []


def test_a_partition_that_stood_still_for_half_a_minute_did_not_stall() -> None:
    progress = [(1_000_000 + at, 0) for at in range(5_000, 150_000, 5_000)]
    assert list(stalls_of([], [_CANDIDATE | {"to_ms": 1_030_000}], {"m": progress}, {("t", 0): [(0, None, "m")]})) == []


def test_a_gap_that_was_a_silence_is_not_usual() -> None:
    away = [Silence(830_000, 930_000, 5)]
    assert _found([], silence_ms=105_000, longest_ms=105_000) == []
    assert _found(away, silence_ms=105_000, longest_ms=105_000) == ["STOP"]


def test_a_restart_makes_no_stall(found: Found) -> None:
    assert [row["status"] for row in found["calm"] if row["status"] in ("STALL", "STOP")] == []


def test_the_owner_of_a_stall_is_the_member_that_had_the_partition_then() -> None:
    owned = {("t", 0): [(0, 1_000_500, "m"), (1_000_500, None, "new")]}
    (found,) = stalls_of([], [_CANDIDATE | {"to_ms": 1_200_000}], _OTHER, owned, (), {"new": "new-1"})
    assert (found["member_id"], found["client_id"]) == ("new", "new-1")
