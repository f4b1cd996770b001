"""Recorded logs that are changed: the same claims are made, moved and renamed as the change says, and none is false."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc
import pytest

from muster.pipeline.episodes.claims import SILENCE
from muster.pipeline.frames import in_this_process
from muster.pipeline.tables.build import build
from tests.pipeline import mutations
from tests.pipeline.mutations import Log
from tests.pipeline.scores import KEPT, inputs_of_rows, rows_of, unpacked
from tests.pipeline.scores_claims import FINE, judged
from tests.pipeline.scores_seen import seen

NAMES: Final = ("drawn-51", "drawn-31")
"""Small logs: the broker restarts in the first one, and nothing happens to it in the second one."""
TABLES: Final = ("verdicts", "episodes", "stalls", "regressions", "commits", "generations")
UNKNOWN: Final = "unknown"
SUFFIX: Final = "-again"

Tables = dict[str, list[dict[str, Any]]]


class Said(NamedTuple):
    """What is said of a log."""

    claims: dict[str, list[tuple[Any, ...]]]
    """The claims about each group, without their words: the rule, the names, the time, the confidence."""
    levels: dict[str, str]
    false: set[str]


def said_of(log: Log) -> Said:
    """What is said of a log, and what of it is false by the log's truth."""
    with in_this_process():
        found = build(inputs_of_rows(log), list(TABLES))
        tables = {name: rows_of(found[name]) for name in TABLES}
    truth = seen(log.truth, tables["commits"], tables["generations"])
    claims = {
        row["group"]: [
            (one["rule"], tuple(one["who"] or ()), one["from_ms"], one["until_ms"], one["confidence"])
            for one in row["claims"]
        ]
        for row in tables["verdicts"]
    }
    levels = {row["group"]: row["level"] for row in tables["verdicts"]}
    return Said(claims, levels, set(judged(tables, truth).false))


@pytest.fixture(scope="module", params=NAMES)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return mutations.log_in(*unpacked(KEPT / f"{request.param}.tar.xz", Path(tmp_path_factory.mktemp("recorded"))))


@pytest.fixture(scope="module")
def original(log: Log) -> Said:
    return said_of(log)


def moved(said: Said, by: Callable[[int], int], name: str = "") -> Said:
    """The same, at other times and of groups with other names."""
    claims = {
        f"{group}{name}": [
            (rule, who, *(None if ms is None else by(ms) for ms in (from_ms, until_ms)), confidence)
            for rule, who, from_ms, until_ms, confidence in some
        ]
        for group, some in said.claims.items()
    }
    return Said(claims, {f"{group}{name}": level for group, level in said.levels.items()}, said.false)


def test_nothing_is_false_of_the_original(original: Said) -> None:
    assert original.false == set()


def test_after_a_silence_everything_is_said_later(log: Log, original: Said) -> None:
    at_ms = mutations.quiet_ms(log)
    found = said_of(mutations.silent(log, at_ms, mutations.SILENCE_MS))
    wanted = moved(original, lambda ms: ms + mutations.SILENCE_MS if ms >= at_ms else ms)
    claims = {group: [one for one in some if one[0] != SILENCE] for group, some in found.claims.items()}
    assert (found.levels, found.false) == (wanted.levels, set())
    assert {group: [one[:2] for one in some] for group, some in claims.items()} == {
        group: [one[:2] for one in some] for group, some in wanted.claims.items()
    }
    assert _apart_ms(claims, wanted.claims) <= mutations.SILENCE_MS


def _apart_ms(some: dict[str, list[tuple[Any, ...]]], others: dict[str, list[tuple[Any, ...]]]) -> int:
    """The largest difference between the times of the same claims."""
    apart = [
        abs((one[place] or 0) - (other[place] or 0))
        for group in some for one, other in zip(some[group], others[group], strict=True) for place in (2, 3)
    ]  # fmt: skip
    return int(max(apart))


def test_other_clocks_and_names_change_nothing_else(log: Log, original: Said) -> None:
    found = said_of(mutations.renamed(mutations.later(log, mutations.AHEAD_MS), SUFFIX))
    assert found == moved(original, lambda ms: ms + mutations.AHEAD_MS, SUFFIX)


def test_of_two_logs_at_once_the_claims_of_both_are_made(log: Log, original: Said) -> None:
    found = said_of(mutations.merged(log, mutations.renamed(log, SUFFIX)))
    again = moved(original, lambda ms: ms, SUFFIX)
    assert found == Said({**original.claims, **again.claims}, {**original.levels, **again.levels}, set())


def test_without_a_partition_of_the_log_its_other_groups_are_described_as_truly(log: Log, original: Said) -> None:
    some = pc.unique(log.rows["log_partition"]).to_pylist()
    found = said_of(mutations.without_partition(log, max(some, key=lambda one: _groups_in(log, one))))
    assert set(found.levels) < set(original.levels)
    assert found.false == set()


def _groups_in(log: Log, partition: int) -> int:
    return len(set(log.rows.filter(pc.equal(log.rows["log_partition"], partition))["group"].to_pylist()))


@pytest.mark.parametrize("part", [mutations.until, mutations.since, mutations.compacted])
def test_nothing_false_is_said_of_a_part_of_the_log(
    log: Log, part: Callable[[Log, int], Log]
) -> None:  # fmt: skip
    """A group may seem fine in a part of its log. So only claims about trouble are judged."""
    found = said_of(part(log, mutations.quiet_ms(log)))
    assert {one for one in found.false if f": {FINE}" not in one} == set()


def test_clocks_that_are_slow_by_two_percent_change_no_level(log: Log, original: Said) -> None:
    found = said_of(mutations.scaled(log, 1.02))
    assert (found.levels, found.false) == (original.levels, set())


def test_without_end_offsets_no_group_is_called_fine(log: Log, original: Said) -> None:
    found = said_of(mutations.without_ends(log))
    assert found.false == set()
    # a group that was deleted has no lag
    fine = {group for group, level in original.levels.items() if level == FINE and not group.startswith("removed")}
    assert {found.levels[group] for group in fine} == {UNKNOWN}
