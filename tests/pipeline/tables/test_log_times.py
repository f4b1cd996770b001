from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.stage import Source, stage
from muster.pipeline.tables.build import build
from muster.pipeline.tables.log_times import DAY_MS, YEARS_MS, Day, are_odd, odd_ones
from tests.pipeline.raw import commit
from tests.pipeline.sources.logs import batch, write_segment

NOW = 1_750_000_000_000
START = 1_700_000_000_000


def odd(*times: int) -> list[tuple[int, int, int]]:
    return list(odd_ones(range(100, 100 + len(times)), times, NOW))


def days(*times: int) -> list[Day]:
    """What Spark would report of records with these times, with one offset after the other."""
    by_day: dict[int, list[tuple[int, int]]] = {}
    for offset, time_ms in enumerate(times):
        by_day.setdefault(time_ms // DAY_MS, []).append((offset, time_ms))
    return [
        Day(0, min(at for _, at in rows), max(at for _, at in rows), min(rows)[0], max(rows)[0])
        for _, rows in sorted(by_day.items())
    ]


def test_rising_times_and_slightly_different_clocks_are_accepted() -> None:
    for times in (
        (START,),
        (START, START, START + 1),
        (START, START - 3_600_000, START + 60_000, START + 2 * DAY_MS, START + 2 * DAY_MS - 7_200_000),
        # a compacted log: old remaining records come first
        (START - 800 * DAY_MS, START - 300 * DAY_MS, START, NOW),
        # clocks of tests begin in 1970
        (1, 2, 3),
    ):
        assert odd(*times) == []
        assert not are_odd(days(*times), NOW)


@pytest.mark.parametrize("wrong", [0, -1, 1, START - 2 * DAY_MS, START + 2 * DAY_MS, NOW + 2 * DAY_MS, 2**62, -(2**62)])
@pytest.mark.parametrize("many", [1, 4])
def test_a_record_out_of_order_gets_the_time_of_the_record_before(wrong: int, many: int) -> None:
    times = [START + number for number in range(10)]
    times[5:5] = [wrong] * many
    assert odd(*times) == [(105 + number, wrong, START + 4) for number in range(many)]
    assert are_odd(days(*times), NOW)


@pytest.mark.parametrize("wrong", [0, -1, START - YEARS_MS - 1])
def test_the_first_record_gets_the_time_of_the_one_after(wrong: int) -> None:
    for rest in ([START], [START + number for number in range(20)]):
        assert odd(wrong, *rest) == [(100, wrong, START)]
        assert are_odd(days(wrong, *rest), NOW)


def test_a_last_record_in_the_future_is_corrected() -> None:
    assert odd(START, START + 1, NOW + DAY_MS + 1) == [(102, NOW + DAY_MS + 1, START + 1)]
    assert are_odd(days(START, NOW + DAY_MS + 1), NOW)
    assert odd(START, NOW + DAY_MS) == []


def test_a_slow_clock_of_this_machine_does_not_change_times() -> None:
    times = [NOW + number * DAY_MS for number in range(30)]
    assert odd(*times) == []
    assert odd(*times[:20], 0, *times[20:]) == [(120, 0, times[19])]


def test_records_without_any_possible_time_are_not_changed() -> None:
    assert odd(0, 0, -1) == []


def test_one_wrong_clock_does_not_move_the_start_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """One client's clock, or the log's, is wrong, also in the first and the last record."""
    records = [
        (0, 0), (START, 0), (START + 1, START + 1), (-1, START), (START + 2, 2**50), (2**50, START), (START + 3, -1),
    ]  # fmt: skip
    data = [
        batch([commit(group=f"g{number}", commit_timestamp=said)], number, timestamp_ms=logged)
        for number, (logged, said) in enumerate(records)
    ]
    write_segment(tmp_path / "log", data)
    inputs = stage(spark, Source(path=str(tmp_path / "log")), str(tmp_path / "stage")).inputs
    rows = build(inputs, ["commits"])["commits"].orderBy("log_offset").collect()
    assert [(row["time_ms"], row["stated_ms"]) for row in rows] == [
        (START, 0),
        (START, 0),
        (START + 1, None),
        (START + 1, -1),
        (START + 2, 2**50),
        (START + 2, 2**50),
        (START + 3, -1),
    ]
