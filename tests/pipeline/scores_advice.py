"""The value of advice: a piece of advice is useful if it is about what happened to the group, by the truth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.pipeline.scores_episodes import Truth, happenings

Row = Mapping[str, Any]

_CALM: Final = frozenset({"static", "session.timeout.ms"})
"""Settings with which the group waits for returning members."""
_SMOOTH: Final = frozenset({"assignor", "group.protocol"})
"""Settings with which a rebalance stops less."""
_DEPLOY: Final = frozenset({"deploy"})
"""Another way to restart the members."""
HELPS: Final[Mapping[str, frozenset[str]]] = {
    "rolling_restart": _CALM | _SMOOTH | _DEPLOY,
    "crash_loop": _CALM | _SMOOTH,
    "flapping": _CALM | _SMOOTH,
    "trouble": _CALM,
    "deaths": _CALM | _SMOOTH,
    "scale_out": _SMOOTH,
    "scale_in": _SMOOTH,
    "overlapping_deploy": _SMOOTH,
    "slow_poller": frozenset({"max.poll.interval.ms"}),
    "formation": frozenset({"group.initial.rebalance.delay.ms"}),
    "start": frozenset({"group.initial.rebalance.delay.ms"}),
    "whole_stop": frozenset(),
    "subscription_changed": _SMOOTH,
    "partitions_changed": _SMOOTH,
}
"""The settings that would have helped, by what happened."""
_WANTS: Final = frozenset({"crash_loop", "flapping", "slow_poller"})
"""A group with one of these episodes, or with a rolling restart of dynamic members, should get advice."""


_EAGER: Final = frozenset({"sarama"})
"""Libraries that play another assignor than the cooperative one that was drawn."""


class Worth(NamedTuple):
    """One row of the table `advice`."""

    useful: list[bool]
    useless: list[str]
    wanted: list[bool]
    """For each group that should get advice, whether it got advice."""
    untold: list[str]


def worth(rows: Sequence[Row], truth: Truth, verdicts: Sequence[Row] = ()) -> Worth:
    """Judge each piece of advice by the truth of its group. Only its own setting helps a slow poller.

    For trouble that no setting mends, a claim of the verdict has the advice.
    """
    happened: dict[str, set[str]] = {}
    cut = {(one.group, one.what) for one in happenings(truth) if one.is_cut}
    for one in happenings(truth):
        if one.confirmed or one.is_cut:
            happened.setdefault(one.group, set()).add(one.what)
    for line in truth:
        if line["kind"] == "rebalance" and line["cause"] in ("subscription_changed", "partitions_changed"):
            happened.setdefault(line["group"], set()).add(line["cause"])
        if line["kind"] == "rebalance" and line.get("died"):  # a script may kill members that no episode names
            happened.setdefault(line["group"], set()).add("deaths")
    static = {line["group"] for line in truth if line["kind"] == "group" and line.get("static")}
    cooperative = {
        line["group"] for line in truth
        if line["kind"] == "group" and "cooperative" in line["assignor"] and line.get("client") not in _EAGER
    }  # fmt: skip
    useful, useless = [], []
    for row in rows:
        group, reported = row["group"], json.loads(row["settings_json"])
        whats = happened.get(group, set())
        good = HELPS["slow_poller"] if "slow_poller" in whats else frozenset().union(*(HELPS[what] for what in whats))
        is_new = not (reported.get("static") and group in static)
        # a cooperative group gains nothing by a strategy at which all members stop
        is_new = is_new and not (group in cooperative and "group.protocol" not in reported and reported.get("assignor"))
        useful.append(is_new and bool(reported) and set(reported) <= good)
        if not useful[-1]:
            useless.append(f"{group} ({', '.join(sorted(whats))}): {row['sentence']}")
    wants = [
        group
        for group, whats in sorted(happened.items())
        if whats & _WANTS
        or ("rolling_restart" in whats and group not in static and (group, "rolling_restart") not in cut)
    ]
    has = {row["group"] for row in rows}
    has |= {row["group"] for row in verdicts for one in row["claims"] or () if one["rule"] in _WANTS and one["advice"]}
    return Worth(useful, useless, [group in has for group in wants], [group for group in wants if group not in has])
