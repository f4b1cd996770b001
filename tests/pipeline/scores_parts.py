"""The figures of `scores`, part by part: pure functions of rows of tables and lines of a truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from tests.pipeline import scores_claims as claims
from tests.pipeline.scores_advice import worth
from tests.pipeline.scores_episodes import KINDS, scored

Row = dict[str, Any]
Tables = Mapping[str, list[Row]]
Truth = Sequence[Mapping[str, Any]]

START_MS: Final = 300
LENGTH: Final = 20
"""The goals for a start and, in percent, for a length."""
SINCE_MS: Final = 60_000
"""A claim that a group is too slow since then is right by this much: lag grows slowly."""
NEAR_MS: Final = 20
"""The times in the broker's log and in its records differ by this much: different threads wrote them."""


class Figure(NamedTuple):
    """One figure of a log."""

    title: str
    value: float | None
    """None: the truth had nothing to find."""
    of: int | None = None
    """For a count: the number of all."""
    unit: str = ""
    misses: tuple[str, ...] = ()
    """The wrong reports."""
    goal: float | None = None
    """For a count: at least this share of all; otherwise at most this value. None: no goal is set."""

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached. None: there is no goal, or nothing to find."""
        if self.goal is None or self.value is None:
            return None
        return self.value <= self.goal if self.of is None else self.value >= self.goal * self.of

    @property
    def wanted(self) -> str:
        """The goal in words."""
        if self.goal is None:
            return ""
        return f"<= {self.goal:g} {self.unit}".rstrip() if self.of is None else f">= {100 * self.goal:g} %"

    def __str__(self) -> str:
        if self.value is None:
            return "-"
        if self.of is not None:
            return f"{self.value:.0f}/{self.of}"
        return f"{self.value:.0f} {self.unit}".rstrip()


def _of(kind: str, truth: Truth) -> list[Mapping[str, Any]]:
    return [line for line in truth if line["kind"] == kind]


LIMIT: Final = 0.95
"""The goal for reports: this share of them is true."""


def _share(title: str, right: Sequence[bool], misses: Iterable[str] = (), goal: float | None = LIMIT) -> Figure:
    return Figure(title, sum(right) if right else None, len(right), misses=tuple(misses), goal=goal)


# ---- sentences

FALSE: Final = "false sentences per 100"
JUDGED: Final = "  sentences"
"""The titles of two figures."""


def sentences(tables: Tables, truth: Truth) -> list[Figure]:
    """False sentences of verdict, summary and page, and the levels of all groups."""
    if "verdicts" not in tables:
        return []
    found = claims.judged(tables, truth)
    right = claims.levels(truth)
    reported = {row["group"]: row["level"] for row in tables["verdicts"]}
    wrong = [
        f"{group}: {reported.get(group)} instead of {' or '.join(sorted(levels))}"
        for group, levels in sorted(right.items())
        if reported.get(group) not in levels
    ]
    per_100 = 100 * len(found.false) / found.count if found.count else None
    return [
        Figure(FALSE, per_100, misses=tuple(found.false), goal=1),
        Figure(JUDGED, found.count),
        _share("level right", [reported.get(group) in levels for group, levels in right.items()], wrong),
    ]


def incidents(tables: Tables, truth: Truth) -> list[Figure]:
    """Incidents besides rebalances: each is claimed of its group, and of no other one."""
    if "verdicts" not in tables:
        return []
    figures = []
    for what, title in claims.INCIDENTS.items():
        found = claims.found(tables, truth, what)
        missing = (f"{group}: no claim" for group, is_reported in found.reported.items() if not is_reported)
        figures.append(_share(title, list(found.reported.values()), missing))
        figures.append(Figure(f"  {title} false", len(found.false), misses=tuple(found.false), goal=0))
    begun = claims.begun(tables, truth)
    late = (f"{group}: {ms / 1000:.0f} s beside the true start" for group, ms in begun.items() if ms > SINCE_MS)
    return [*figures, _share("  too slow since right", [ms <= SINCE_MS for ms in begun.values()], late, goal=None)]


# ---- rebalances


def rebalances(tables: Tables, truth: Truth) -> list[Figure]:
    """Found rebalances, causes, starts, lengths, and dead members."""
    found = _numbered(tables["rebalances"], "end_ms")
    for line in _of("unsure", truth):
        last = line["last"] or max((key[1] for key in found if key[0] == line["group"]), default=0)
        for generation in range(line["first"], last + 1):
            found.pop((line["group"], generation, 0), None)
    true = _numbered(_of("rebalance", truth), "settled")
    both = [(true[key], found[key]) for key in true if key in found]
    causes = [(was, row) for was, row in both if was["cause"] != row["cause"]]
    return [
        _share(
            "rebalances found",
            [key in found for key in true],
            (f"{key[0]} {key[1]}: {true[key]['cause']} is missing" for key in true if key not in found),
        ),
        Figure("rebalances false", len(found.keys() - true.keys()), goal=0),
        _share("  cause right", [was["cause"] == row["cause"] for was, row in both], (_cause(*one) for one in causes)),
        *_times([one for one in both if one[0].get("length_known", True)]),
        *_deaths(both),
    ]


def _numbered(rows: Iterable[Mapping[str, Any]], time: str) -> dict[tuple[str, int, int], Mapping[str, Any]]:
    seen: Counter[tuple[str, int]] = Counter()
    found = {}
    for row in sorted(rows, key=lambda row: (row["group"], row["generation"], row[time])):
        key = row["group"], row["generation"]
        found[*key, seen[key]] = row
        seen[key] += 1
    return found


def _cause(was: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return f"{was['group']} {was['generation']}: {was['cause']} taken for {row['cause']} ({row['confidence']})"


def _times(both: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[Figure]:
    starts, lengths, inside, lasts, outside, wide = [], [], [], [], [], []
    for was, row in both:
        if row["start_ms"] is None or row["took_ms"] is None:  # the log begins in its midst
            continue
        starts.append(abs(row["start_ms"] - was["acted"]))
        true_ms = max(was["settled"] - was["acted"], 1)
        lengths.append(100 * abs(row["took_ms"] - true_ms) / true_ms)
        if row.get("start_earliest_ms") is None:
            continue
        low, high = row["start_earliest_ms"], row["start_latest_ms"]
        inside.append(low - NEAR_MS <= was["acted"] <= high + NEAR_MS)
        lasts.append(row["took_least_ms"] - NEAR_MS <= true_ms <= row["took_most_ms"] + NEAR_MS)
        wide.append(high - low)
        if not inside[-1]:
            outside.append(
                f"{was['group']} {was['generation']} {was['cause']}: {was['acted'] - low} ms after the earliest, "
                f"{high - was['acted']} before the latest"
            )
    return [
        Figure("  start, median error", median(starts) if starts else None, unit="ms", goal=START_MS),
        Figure("  length, median error", median(lengths) if lengths else None, unit="%", goal=LENGTH),
        Figure(
            "  length, all reported / all true", 100 * _sum(both, reported=True) / _sum(both, reported=False), unit="%"
        ),
        _share("  start inside the told range", inside, outside),
        _share("  length inside the told range", lasts),
        Figure("  range, median width", median(wide) if wide else None, unit="ms"),
    ]


def _sum(both: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], *, reported: bool) -> int:
    return max(sum((row["took_ms"] or 0) if reported else was["settled"] - was["acted"] for was, row in both), 1)


def _deaths(both: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[Figure]:
    named, missed, errors = [], [], []
    for was, row in both:
        dead = {one["client_id"] for one in was["died"]}
        if not dead:
            continue
        reported = {one["client_id"] for one in row.get("died") or ()}
        named.append(reported == dead)
        if reported != dead:
            missed.append(f"{was['group']} {was['generation']}: {sorted(dead)} reported as {sorted(reported)}")
        lives = [one["last_life"] for one in was["died"] if one["last_life"] is not None]
        if lives and row.get("silent_from_ms") is not None:
            errors.append(abs(row["silent_from_ms"] - min(lives)))
    return [
        _share("  all who died named", named, missed),
        Figure("  last sign of life, median error", median(errors) if errors else None, unit="ms"),
    ]


# ---- commits that went back


def regressions(tables: Tables, truth: Truth) -> list[Figure]:
    """Each incident must be one row with the right cause."""
    meant = [line for line in _of("regression", truth) if line["cause"] is not None]
    rows = tables["regressions"]
    reported: dict[int, list[Row]] = {}
    for row in rows:
        for place, line in enumerate(meant):
            if row["group"] == line["group"] and line["from"] - 50 <= row["time_ms"] <= line["until"] + 50:
                reported.setdefault(place, []).append(row)
    right, misses = [], []
    for place, line in enumerate(meant):
        causes = {row["cause"] for row in reported.get(place, ())}
        right.append(causes == {line["cause"]})
        if not right[-1]:
            misses.append(f"{line['group']} {line['cause']} by {line['by']}: reported as {sorted(causes)}")
    of_meant = [row for some in reported.values() for row in some]
    wrong = [row for place, some in reported.items() for row in some if row["cause"] != meant[place]["cause"]]
    known = {(line["group"], line["from"]) for line in _of("regression", truth) if line["cause"] is None}
    known |= {(row["group"], row["time_ms"]) for row in rows for line in _of("incident", truth)
              if (line["group"], line["what"]) == (row["group"], row["cause"])}  # fmt: skip
    false = [row for row in rows if row not in of_meant and (row["group"], row["time_ms"]) not in known]
    return [
        _share("regressions right", right, misses),
        _share("  rows with the right cause", [row not in wrong for row in of_meant]),
        Figure("  rows for one happening", len(of_meant) / len(reported) if reported else None, goal=1.5),
        Figure(
            "  rows of nothing known",
            len(false),
            misses=tuple(f"{one['group']} {one['cause']}" for one in false),
            goal=0,
        ),
    ]


# ---- partitions that stood still

STILL: Final = ("STALL", "STOP")


def stalls(tables: Tables, truth: Truth) -> list[Figure]:
    """A true stall is found if one of its rows covers half of it; a row that touches no true stall is false."""
    rows = [row for row in tables["stalls"] if row["status"] in STILL]
    meant = [(line, partition) for line in _of("stall", truth) for partition in line["partitions"]]
    found, misses, true_rows = [], [], []
    for line, partition in meant:
        place = line["group"], line["topic"], partition
        of_it = [row for row in rows if (row["group"], row["topic"], row["partition"]) == place]
        touching = [row for row in of_it if _overlap(row, line) > 0]
        true_rows += touching
        shown_ms = line.get("shown", line["until"] - line["from"])
        found.append(any(_overlap(row, line) >= shown_ms / 2 for row in touching))
        if not found[-1]:
            misses.append(f"{line['group']} {line['topic']}-{partition} {line['how']}")
    false = [row for row in rows if row not in true_rows]
    reported = tuple(f"{one['group']} {one['topic']}-{one['partition']} {one['status']}" for one in false)
    return [_share("stalls found", found, misses), Figure("  false", len(false), misses=reported, goal=0)]


def _overlap(row: Row, line: Mapping[str, Any]) -> float:
    until = row["end_ms"] if row["end_ms"] is not None else max(line["until"], row["start_ms"])
    return float(min(until, line["until"]) - max(row["start_ms"], line["from"]))


# ---- episodes


def episodes(tables: Tables, truth: Truth) -> list[Figure]:
    """One row of the right kind at the right time, in all and by kind; and rows without an event."""
    rows = tables.get("episodes")
    if rows is None:
        return []
    reported = scored(rows, truth)
    by_kind = [(kind, [good for one, good in reported.right if one.what == kind]) for kind in KINDS]
    return [
        _share("episodes right", [good for _, good in reported.right], reported.misses),
        *(_share(f"  {kind}", right, goal=None) for kind, right in by_kind if right),
        Figure("episodes false", len(reported.false), misses=tuple(reported.false)),
    ]


# ---- advice


def advice(tables: Tables, truth: Truth) -> list[Figure]:
    """Advice that would have helped with what happened, and groups that should get advice."""
    rows = tables.get("advice")
    if rows is None:
        return []
    found = worth(rows, truth, tables.get("verdicts", ()))
    return [
        _share("advice useful", found.useful, found.useless),
        _share("  given where it was wanted", found.wanted, found.untold),
    ]


PARTS: Final[Sequence[Callable[[Tables, Truth], list[Figure]]]] = (
    sentences, rebalances, regressions, stalls, incidents, episodes, advice,
)  # fmt: skip
"""A new table needs its figures here."""
