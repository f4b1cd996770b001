"""Episodes of a truth, as the broker itself saw them, and how many of them the pipeline finds.

A script writes down what it did. On a busy machine a process may start a minute later. A group whose session is long
may not notice that a broker stands still. Then the broker's own lines (`rebalance`) say what the pipeline can find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

Row = Mapping[str, Any]
Truth = Sequence[Mapping[str, Any]]

SLACK_MS: Final = 8_000
"""An episode counts as found if it is reported within this time of the event."""
_LOOPS: Final = 4
"""A log with fewer rebalances at that time does not show a crash loop."""
_SLOW: Final = 3
"""A member that did not poll must have left so many times: its timeouts are short, so it looks like a dead one."""
_LATE_MS: Final = 60_000
"""On a busy machine a started process becomes a member within this time."""

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "formation": ("first_formation",),
    "start": ("whole_stop",),  # one episode: all members left and returned
    "rolling_restart": ("rolling_restart",),
    "scale_out": ("scale_out",),
    "scale_in": ("scale_in",),
    "crash_loop": ("crash_loop",),
    "flapping": ("flapping",),
    "overlapping_deploy": ("overlapped_deploy",),
    "slow_poller": ("slow_poller",),
    "deaths": ("member_died",),
    "whole_stop": ("whole_stop",),
    "trouble": ("coordinator_or_network_trouble",),
}
"""The kinds of episode that the pipeline may report for a kind of the truth."""
_TOLD: Final = frozenset(kind for kinds in KINDS.values() for kind in kinds)
_STARTS: Final = frozenset({"formation", "start", "scale_out", "overlapping_deploy"})
"""Episodes that begin with processes that are started."""


class Happening(NamedTuple):
    """An episode of the truth, in one group."""

    group: str
    what: str
    from_ms: int
    until_ms: int
    members: frozenset[str]
    confirmed: bool
    """Whether the broker saw it: only then the pipeline can find it."""
    also: frozenset[str] = frozenset()
    """The episode may also be reported as one of these kinds: members that died and return are reported with their
    deaths, and so is a deploy that kills them.
    """
    is_cut: bool = False
    """Whether it began before the log."""


def happenings(truth: Truth) -> list[Happening]:
    """All episodes of a log."""
    rows: dict[str, list[Row]] = {}
    for line in truth:
        if line["kind"] == "rebalance":
            rows.setdefault(line["group"], []).append(line)
    lines = [line for line in truth if line["kind"] == "episode"]
    groups = {*rows, *(line["group"] for line in truth if line["kind"] == "group")}
    found = [_happening(group, line, rows.get(group, ()), lines) for line in lines for group in _groups(line, rows)]
    found += [
        Happening(group, "trouble", line["from"], line["until"] + _LATE_MS, frozenset(), confirmed=False)
        for line in truth if line["kind"] == "silence" for group in groups if group in line.get("groups", groups)
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.group, one.from_ms))


def _groups(line: Row, rows: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    if line["group"] is not None:
        yield line["group"]
        return
    yield from line["groups"]
    for group, some in rows.items():  # no script meant it, but the group was affected
        if group not in line["groups"] and any(one["died"] and _touches(one, line) for one in some):
            yield group


def _touches(rebalance: Row, line: Row) -> bool:
    return bool(rebalance["settled"] >= line["from"] and rebalance["acted"] <= line["until"])


def _happening(group: str, line: Row, rebalances: Sequence[Row], lines: Truth) -> Happening:
    members = frozenset(line["members"])
    until_ms = line["until"]
    if line["what"] in _STARTS:
        came = [
            one["settled"]
            for one in rebalances
            if line["from"] <= one["settled"] and one["acted"] <= until_ms + _LATE_MS and members & _came(one)
        ]
        until_ms = max(until_ms, min(came, default=0))
    near = [one for one in rebalances if one["settled"] >= line["from"] and one["acted"] <= until_ms]
    seen = bool(near)
    if line["what"] == "crash_loop":
        seen = len(near) >= _LOOPS and line.get("losses", _SLOW) >= _SLOW
    if line["what"] in ("rolling_restart", "flapping") and line.get("static"):
        seen = True  # without a rebalance
    if line["what"] == "slow_poller":
        seen = sum(_is_gone(one, members) for one in near) >= _SLOW
    if line["what"] == "overlapping_deploy":
        seen = seen and _overlapped(line, rebalances, until_ms)
    seen = seen and not line.get("cut")
    dead = {
        name
        for other in lines
        if other["group"] == group and other["what"] == "deaths" and other["from"] < line["from"]
        for name in other["members"]
    }
    is_death = line.get("hard") or (line["what"] == "scale_out" and members <= dead)
    also = frozenset({"member_died"} if is_death else ())
    return Happening(group, line["what"], line["from"], until_ms, members, seen, also, bool(line.get("cut")))


def _is_gone(rebalance: Row, members: frozenset[str]) -> bool:
    died = {one["client_id"] for one in rebalance["died"]}
    return bool(members & ({*rebalance.get("left", ())} | died | _trigger(rebalance)))


def _came(rebalance: Row) -> set[str]:
    trigger = rebalance.get("trigger") or {}
    return {*rebalance.get("came", ()), *([trigger["client_id"]] if rebalance["cause"] == "member_joined" else ())}


def _overlapped(line: Row, rebalances: Sequence[Row], until_ms: int) -> bool:
    """Whether some members joined before others, which were members, left."""
    members = set(line["members"])
    near = [one for one in rebalances if line["from"] <= one["settled"] and one["acted"] <= until_ms + SLACK_MS]
    came = min((one["acted"] for one in near if members & _came(one)), default=None)
    return came is not None and any(
        one["settled"] >= came and members & ({*one.get("left", ())} | _trigger(one)) for one in near
    )


def _trigger(rebalance: Row) -> set[str]:
    gone = rebalance["cause"] == "member_left" and rebalance.get("trigger")
    return {rebalance["trigger"]["client_id"]} if gone else set()


class Scored(NamedTuple):
    """What was reported of the events that the broker saw."""

    right: list[tuple[Happening, bool]]
    misses: list[str]
    false: list[str]


def scored(rows: Sequence[Row], truth: Truth) -> Scored:
    """An episode is found if a row of its kind touches its time. A row is false if no episode of its kind was then. If
    the truth does not have its kind (a restart of one member), it is false if there was no rebalance at all.
    """
    every = happenings(truth)
    right, misses = [], []
    for one in every:
        if not one.confirmed:
            continue
        near = {row["kind"] for row in rows if _is_near(row, one)}
        right.append((one, bool(near & {*KINDS[one.what], *one.also})))
        if not right[-1][1]:
            misses.append(f"{one.group} {one.what}: reported as {sorted(near)}")
    rebalances = [line for line in truth if line["kind"] == "rebalance"]
    false = [f"{row['group']} {row['kind']}" for row in rows if is_false(row, every, rebalances)]
    return Scored(right, misses, false)


def is_false(row: Row, every: Sequence[Happening], rebalances: Sequence[Row]) -> bool:
    """Whether nothing of the truth fits an episode that was reported."""
    return not (
        any(_is_near(row, one) and _may_be(row, one) for one in every)
        or ((row["kind"] not in _TOLD or row["kind"] == "member_died") and _is_seen(row, rebalances))
    )


def _may_be(row: Row, one: Happening) -> bool:
    """If the broker did not see the action of a script, nobody knows what happened instead."""
    unknown = not one.confirmed and one.what != "trouble"
    return unknown or row["kind"] in (*KINDS[one.what], *one.also)


def _is_near(row: Row, one: Happening) -> bool:
    return bool(
        row["group"] == one.group
        and row["from_ms"] <= one.until_ms + SLACK_MS
        and row["until_ms"] >= one.from_ms - SLACK_MS
    )


def _is_seen(row: Row, rebalances: Sequence[Row]) -> bool:
    """Whether there was a rebalance; for deaths, whether a member died in one."""
    return any(
        one["group"] == row["group"]
        and one["acted"] <= row["until_ms"] + SLACK_MS
        and one["settled"] >= row["from_ms"] - SLACK_MS
        and (one["died"] or row["kind"] != "member_died")
        for one in rebalances
    )
