"""At most one sentence of advice for a group, out of its own what-if. Pure; docs/pipeline-what-if.md has the rules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from muster.pipeline.whatif.compare import Comparison, WhatIf
from muster.pipeline.whatif.costs import Figures
from muster.pipeline.whatif.history import CONSUMER, EVENTS, LOG, History
from muster.pipeline.whatif.schedule import ON_THE_SERVER
from muster.pipeline.whatif.settings import Setting
from muster.pipeline.wording import duration, plural

UNSURE: Final = {EVENTS: 0.05, LOG: 0.30}
"""The share of the unread time that may be wrong, by what the history was read from."""
LEAST_SHARE: Final = 0.10
"""A gain below this share of what really was is none."""
LEAST_REBALANCES: Final = 2
"""So many rebalances must be spared."""
NEARLY: Final = 0.9
"""A setting that gains this share of the best one's gain, and changes less, is told instead."""


class Advice(NamedTuple):
    """One setting that would have helped a group. Times are partitions times ms."""

    setting: Setting
    spared: int
    """Rebalances."""
    gain_ms: int
    """Unread time that would have been spared, the dead time that the setting adds taken off."""
    uncertainty_ms: int
    told: str


def advice(history: History, found: Comparison) -> Advice | None:
    """What would have helped most; None: nothing that is sure, or too little."""
    fidelity = found.fidelity
    if fidelity.withheld or _is_at_rest(history):
        return None
    actual = found.actual
    unsure = UNSURE[fidelity.source] + (1 - fidelity.share)
    uncertainty_ms = round(unsure * _unread_ms(actual))
    possible = [
        one for row in found.whatif if (one := _helps(row, history, actual, uncertainty_ms, 1 - fidelity.share))
    ]
    if not possible:
        return None
    most_ms = max(one.gain_ms for one in possible)
    most = max(one.spared for one in possible)
    near = [one for one in possible if one.gain_ms >= NEARLY * most_ms] if most_ms > uncertainty_ms else [
        one for one in possible if one.spared >= NEARLY * most
    ]  # fmt: skip
    return min(near, key=lambda one: (_changes(one.setting), -one.gain_ms, -one.spared, one.setting.name))


def _is_at_rest(history: History) -> bool:
    """Did it only form, stop on purpose, and form again?"""
    formed = len(history.emptied) + (history.given is None)
    return len(history.generations) - formed < LEAST_REBALANCES


def _helps(row: WhatIf, history: History, actual: Figures, uncertainty_ms: int, unfaithful: float) -> Advice | None:
    figures, setting = row.figures, row.setting
    if figures is None or not _changes(setting) or not _may_be_told(setting, history):
        return None
    # epochs of the consumer protocol are no rebalances in which work stops: they are not compared
    spared = actual.rebalances - figures.rebalances if setting.protocol is None else 0
    gain_ms = _unread_ms(actual) - _unread_ms(figures)
    is_gain = gain_ms > max(uncertainty_ms, LEAST_SHARE * _unread_ms(actual)) and spared >= 0
    # fewer rebalances at the same unread time help too
    least = max(LEAST_REBALANCES, LEAST_SHARE * actual.rebalances, unfaithful * actual.rebalances + 1)
    is_calmer = spared >= least and gain_ms > -LEAST_SHARE * _unread_ms(actual)
    if not is_gain and not is_calmer:
        return None
    told = _told(setting, history, actual, figures, spared, gain_ms if is_gain else None)
    return Advice(setting, spared, gain_ms, uncertainty_ms, told)


def _may_be_told(setting: Setting, history: History) -> bool:
    """Not what the history cannot tell, and not another way to deploy for what was stopped on purpose."""
    if setting.heartbeat_interval_ms is not None and history.source == LOG:
        return False  # how often members sent heartbeats is not known
    # no log has the pauses that a shorter timeout would have ended without need
    for asked_ms, real_ms in (
        (setting.session_timeout_ms, [one.session_timeout_ms for one in history.spells]),
        (setting.rebalance_timeout_ms, [one.rebalance_timeout_ms for one in history.spells]),
    ):
        if asked_ms is not None and asked_ms < max(real_ms, default=0):
            return False
    if setting.protocol is None and history.protocol == CONSUMER and setting.assignor not in (None, *ON_THE_SERVER):
        return False  # such a group cannot have it
    return setting.deploy is None or not history.emptied


def _unread_ms(figures: Figures) -> int:
    return figures.paused_partition_ms + figures.silent_partition_ms


def _changes(setting: Setting) -> int:
    """How much one has to change: a deploy in another way, or another protocol, is more than a setting."""
    return len(json.loads(setting.to_json())) + (setting.deploy is not None) + (setting.protocol is not None)


def _told(
    setting: Setting, history: History, actual: Figures, figures: Figures, spared: int, gain_ms: int | None
) -> str:
    would = []
    if spared > 0:
        would.append(f"{spared:,} of {plural(actual.rebalances, 'rebalance')}")
    if gain_ms is not None:
        would.append(f"{duration(gain_ms)} of {duration(_unread_ms(actual))} in which partitions were unread")
    price = _price(setting, history, actual, figures)
    change = words(setting)
    if (setting.protocol or history.protocol) == CONSUMER:
        for name in ("session.timeout.ms=", "heartbeat.interval.ms="):  # configurations of the group
            change = change.replace(name, f"consumer.{name}")
    return f"{change} would have spared {' and '.join(would)}{f'; {price}' if price else ''}"


def _price(setting: Setting, history: History, actual: Figures, figures: Figures) -> str:
    if actual.detect_ms is not None and figures.detect_ms is not None:
        longer_ms = figures.detect_ms - actual.detect_ms
        if longer_ms >= _SECOND:
            return f"a crash would have stayed unnoticed {duration(round(longer_ms, -3))} longer"
        return ""
    session_ms = setting.session_timeout_ms or max((one.session_timeout_ms for one in history.spells), default=0)
    usual_ms = max((one.session_timeout_ms for one in history.spells), default=0)
    if setting.static and session_ms:
        return f"a member that stops for good would stay unnoticed for {duration(session_ms)}"
    if session_ms > usual_ms:
        return f"a crash would stay unnoticed {duration(session_ms - usual_ms)} longer"
    return ""


_SECOND: Final = 1_000


def words(setting: Setting) -> str:
    """What one has to change, as it is written in a client's settings."""
    return _and(list(_parts(setting)))


def _and(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _parts(setting: Setting) -> Iterator[str]:
    if setting.static:
        yield "static ids"
    if setting.assignor is not None:
        yield f"the assignor {setting.assignor}"
    for name, value in json.loads(setting.to_json()).items():
        if name.endswith(".ms") or name == "group.protocol":
            yield f"{name}={value}"
    if setting.deploy is not None:
        count = setting.deploy
        yield "restarting all members at once" if not count else f"restarting {plural(count, 'member')} at a time"
