"""At most one sentence of advice for a group, from its own what-if. Pure. docs/pipeline-what-if.md has the rules."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Final, NamedTuple

from muster.pipeline.episodes.thresholds import BACK_MS, LATE_MS, LOOP_MS, LOOPS, SECOND, SLOW_TWICE
from muster.pipeline.whatif.compare import Comparison, WhatIf
from muster.pipeline.whatif.costs import Figures
from muster.pipeline.whatif.history import CONSUMER, EVENTS, EXPIRED, LEFT, LOG, History, Stay, planned
from muster.pipeline.whatif.leader import is_cooperative
from muster.pipeline.whatif.processes import polled_too_late
from muster.pipeline.whatif.settings import ON_THE_SERVER, Setting
from muster.pipeline.wording import duration, plural

UNSURE: Final = {EVENTS: 0.05, LOG: 0.20}
"""The share of the unread time that may be wrong, by the source of the history."""
LEAST_SHARE: Final = 0.10
"""A gain below this share of the real time does not count."""
CALMER_SHARE: Final = 0.25
"""If a setting spares no unread time, it must spare this share of the rebalances."""
LEAST_REBALANCES: Final = 2
"""A setting must spare at least this many rebalances."""
MAX_FOR_COMPANY: Final = 0.20
"""If an empty group is to wait for more members, the unread time may grow by this share."""
LONGEST_DELAY_MS: Final = 10_000
"""A longer delay than this is never advised."""
NEARLY: Final = 0.8
"""Of the settings that gain at least this share of the best gain, the one that changes least is advised."""


class Advice(NamedTuple):
    """A setting that would have helped a group. Times are summed over the partitions (partitions times ms)."""

    setting: Setting
    spared: int
    """The number of spared rebalances."""
    gain_ms: int
    """The spared unread time, minus the dead time that the setting adds."""
    unread_ms: int
    """The real unread time."""
    uncertainty_ms: int
    sentence: str


def advice(history: History, comparison: Comparison) -> Advice | None:
    """The setting that would have helped most. It is None if no gain is sure, or each gain is too small."""
    if comparison.fidelity.withheld or _is_at_rest(history):
        return None
    uncertainty_ms = _uncertainty_ms(comparison)
    gains = _gains(history, comparison)
    possible = [sentence for one in gains if (sentence := _helps(one, history, comparison.actual, uncertainty_ms))]
    if not possible:
        return None
    most_ms = max(one.gain_ms for one in possible)
    most = max(one.spared for one in possible)
    near = [one for one in possible if one.gain_ms >= NEARLY * most_ms] if most_ms > uncertainty_ms else [
        one for one in possible if one.spared >= NEARLY * most
    ]  # fmt: skip
    return min(near, key=_rank)


def _is_at_rest(history: History) -> bool:
    """Whether the group only formed, stopped on purpose, and formed again.

    Rebalances at the end of a silence do not count: coordinator or network had been away.
    """
    formed = len(history.emptied) + (history.given is None)
    spans = [(from_ms, _whole_again_ms(history, until_ms)) for from_ms, until_ms in history.away]
    by_silence = sum(any(from_ms < one.start_ms <= end_ms for from_ms, end_ms in spans) for one in history.generations)
    return len(history.generations) - formed - by_silence < LEAST_REBALANCES


def _whole_again_ms(history: History, until_ms: int) -> int:
    """Until when rebalances follow from a silence: until a member that was there after it left, or died."""
    ends = [
        one.end_ms for one in history.stays
        if one.end_ms is not None and one.end_ms > until_ms + SECOND
        and (one.end == LEFT or (one.heard_ms or 0) > until_ms + LATE_MS)
    ]  # fmt: skip
    return min([until_ms + BACK_MS, *(end_ms - 1 for end_ms in ends)])


def _only_formed(history: History) -> bool:
    """Whether all rebalances but one belong to formations and stops. Each join or departure may begin its own."""
    return len(history.generations) - len(planned(history)) < LEAST_REBALANCES


class _Gain(NamedTuple):
    """What a setting would have spared. Times are summed over the partitions (partitions times ms)."""

    setting: Setting
    figures: Figures
    spared: int
    """The number of spared rebalances."""
    gain_ms: int
    unread_ms: int
    """The real unread time."""
    is_gain: bool
    """Whether the spared unread time is large enough, and not by chance."""
    least: float
    """The number of rebalances that the setting must spare if it spares no unread time."""
    most_ms: float
    """By how much the unread time may grow in that case."""

    @property
    def is_calmer(self) -> bool:
        """Whether the setting spares rebalances at about the same unread time."""
        return self.spared >= self.least and self.gain_ms > -self.most_ms


def _gain(row: WhatIf, history: History, comparison: Comparison, uncertainty_ms: int) -> _Gain | None:
    figures, setting, actual = row.figures, row.setting, comparison.actual
    if figures is None or not _changes(setting) or not _may_be_advised(setting, history):
        return None
    # a setting does not gain what the replay of the real settings already spares
    base, unfaithful = comparison.played or actual, 1 - comparison.fidelity.share
    # in epochs of the consumer protocol and in short cooperative rounds, work does not stop. So these are not compared
    is_alike = setting.protocol is None and (setting.assignor is None or not is_cooperative(setting.assignor))
    spared = min(actual.rebalances, base.rebalances) - figures.rebalances
    spared = spared if is_alike else 0 if setting.protocol else max(spared, 0)
    unread_ms = _unread_ms(actual, setting)
    gain_ms = min(unread_ms, _unread_ms(base, setting)) - _unread_ms(figures, setting)
    # by chance, dead members might have had fewer partitions in the replay
    silent_ms = max(base.silent_partition_ms - figures.silent_partition_ms, 0)
    gain_ms -= min(silent_ms, _chance_ms(history)) if gain_ms > 0 else 0
    is_gain = gain_ms > max(uncertainty_ms, LEAST_SHARE * unread_ms) and spared >= 0
    # not every log shows how long a group waited for its first members. So for this setting only fewer rebalances count
    is_gain &= setting.initial_delay_ms is None
    least = max(LEAST_REBALANCES, CALMER_SHARE * actual.rebalances, unfaithful * actual.rebalances + 1)
    most = LEAST_SHARE if setting.initial_delay_ms is None else MAX_FOR_COMPANY
    most_ms = most * (actual.paused_partition_ms + actual.silent_partition_ms)
    return _Gain(setting, figures, spared, gain_ms, unread_ms, is_gain, least, most_ms)


def _helps(one: _Gain, history: History, actual: Figures, uncertainty_ms: int) -> Advice | None:
    if not one.is_gain and not one.is_calmer:
        return None
    gain_ms = one.gain_ms if one.is_gain else min(one.gain_ms, 0)
    sentence = _sentence(one.setting, history, actual, one.figures, one.spared, gain_ms)
    return Advice(one.setting, one.spared, one.gain_ms, one.unread_ms, uncertainty_ms, sentence)


def unadvised(history: History, comparison: Comparison) -> str:
    """Why no advice is given for a group, in words that follow *nothing is advised:*."""
    if comparison.fidelity.withheld:
        return comparison.fidelity.why or "its history cannot be played again"
    if _is_at_rest(history):
        return "it hardly rebalanced, except when it formed and when all members stopped"
    some = [one for one in _gains(history, comparison) if one.setting.initial_delay_ms is None]
    if not some and _is_slow(history):
        return "only a longer max.poll.interval.ms, or less work from poll to poll, heals who does not poll in time"
    if not some:
        return "none of the settings that were played is one for it"
    calmest = max(some, key=lambda one: (one.spared, one.gain_ms), default=None)
    if calmest is not None and calmest.spared >= calmest.least:
        # of the settings that spare equally many rebalances, the one that costs least is named
        return (
            f"{_change(calmest.setting, history)} would have spared {calmest.spared:,} of "
            f"{plural(comparison.actual.rebalances, 'rebalance')}, but left partitions unread for "
            f"{duration(-calmest.gain_ms)} longer (partitions added up)"
        )
    best = max(some, key=lambda one: one.gain_ms, default=None)
    if best is not None and best.gain_ms > 0:
        return (
            f"the most that a setting would have spared ({_change(best.setting, history)}: {duration(best.gain_ms)} of "
            f"{duration(best.unread_ms)} of unread time, partitions added up) is too little to be sure of"
        )
    return "no setting that was played would have spared anything"


def _gains(history: History, comparison: Comparison) -> list[_Gain]:
    uncertainty_ms = _uncertainty_ms(comparison)
    rows = [row for row in comparison.whatif if row.setting.initial_delay_ms is not None or not _only_formed(history)]
    return [one for row in rows if (one := _gain(row, history, comparison, uncertainty_ms)) is not None]


def _uncertainty_ms(comparison: Comparison) -> int:
    unsure = UNSURE[comparison.fidelity.source] + (1 - comparison.fidelity.share)
    return round(unsure * _unread_ms(comparison.actual, Setting()))


def _may_be_advised(setting: Setting, history: History) -> bool:
    """Whether a setting may be advised: the history must show its effect.

    Another way to deploy is not advised if members were stopped on purpose.
    """
    if setting.heartbeat_interval_ms is not None and history.source == LOG:
        return False  # nobody knows how often members sent heartbeats
    # a shorter timeout would have ended pauses needlessly, and no log has them
    for asked_ms, real_ms in (
        (setting.session_timeout_ms, [one.session_timeout_ms for one in history.stays]),
        (setting.rebalance_timeout_ms, [one.rebalance_timeout_ms for one in history.stays]),
    ):
        if asked_ms is not None and asked_ms < max(real_ms, default=0):
            return False
    if setting.protocol == history.protocol:
        return False  # the group already has this protocol
    if setting.rebalance_timeout_ms is None and _is_slow(history):
        return False  # no other setting helps a member that does not poll in time
    delay_ms = setting.initial_delay_ms
    if delay_ms is not None and not history.initial_delay_ms < delay_ms <= LONGEST_DELAY_MS:
        return False  # a forming group waits on purpose, so that other members can join
    if setting.static and history.stays and all(one.instance_id is not None for one in history.stays):
        return False  # its members already have static ids
    had = {one.protocol for one in (history.given, *history.generations) if one is not None}
    if setting.assignor in had:
        return False  # a replay may assign otherwise, but the group already has this assignor
    if any(map(is_cooperative, had)) and setting.assignor is not None and not is_cooperative(setting.assignor):
        return False  # in each rebalance all members would stop, only to spare the second rounds
    if history.protocol == CONSUMER and (setting.protocol or setting.assignor not in (None, *ON_THE_SERVER)):
        return False  # nobody returns to the protocol in which all members stop, or to its strategies
    return setting.deploy is None or not (history.emptied or _died(history) or _leaves_again(history))


def _leaves_again(history: History) -> bool:
    """Whether most departures are of processes that left again and again: a deploy restarts each process once."""
    by_process: dict[tuple[str, str], list[Stay]] = defaultdict(list)
    for one in history.stays:
        by_process[one.client_id, one.host].append(one)
    departures = again = 0
    for stays in by_process.values():
        ends = sorted(one.end_ms for one in stays if one.end_ms is not None)
        departures += len(ends)
        # several members may have one client id and one host
        beside = sum((one.joined_ms or 0) < min(ends, default=0) for one in stays)
        later = ends[LOOPS * max(beside, 1) - 1 :]
        again += len(ends) if any(end - first <= LOOP_MS for first, end in zip(ends, later, strict=False)) else 0
    return 2 * again > departures


def _died(history: History) -> bool:
    """Whether at least half of the departed members died. If so, there was no deploy that could be done in another
    way.
    """
    gone = [one for one in history.stays if one.end is not None]
    return 2 * sum(one.end == EXPIRED for one in gone) >= max(len(gone), 1)


def _is_slow(history: History) -> bool:
    """Whether members left because they had not polled in time: several of them, or half of all that left."""
    gone = [one for one in history.stays if one.end is not None]
    slow = sum(map(polled_too_late, gone))
    return (slow >= SLOW_TWICE and 3 * slow >= len(gone)) or 2 * slow >= max(len(gone), 1)


def _chance_ms(history: History) -> int:
    """By how much unread time could be spared by chance.

    If each dead member has one partition more or less, this is the usual sum of all differences.
    """
    dead = [one for one in history.stays if one.end == EXPIRED and one.end_ms is not None and one.heard_ms is not None]
    return round(sqrt(sum(((one.end_ms or 0) - (one.heard_ms or 0)) ** 2 for one in dead)))


def _unread_ms(figures: Figures, setting: Setting) -> int:
    """The unread time. It includes formations, which are no trouble, only if the setting changes their length."""
    forming_ms = figures.forming_partition_ms if setting.initial_delay_ms is None else 0
    return figures.paused_partition_ms + figures.silent_partition_ms - forming_ms


def _changes(setting: Setting) -> int:
    """How much a user must change. Another way to deploy, or another protocol, counts more than a setting."""
    return len(json.loads(setting.to_json())) + (setting.deploy is not None) + (setting.protocol is not None)


def _rank(one: Advice) -> tuple[int, int, int, int, str]:
    return _changes(one.setting), -one.spared, _waits_ms(one.setting), -one.gain_ms, one.setting.name


def _waits_ms(setting: Setting) -> int:
    """How long other members wait with this setting. Of two settings with about equal gains, the shorter time wins."""
    return sum((setting.session_timeout_ms or 0, setting.rebalance_timeout_ms or 0, setting.initial_delay_ms or 0))


def _sentence(setting: Setting, history: History, actual: Figures, figures: Figures, spared: int, gain_ms: int) -> str:
    would, added = [], ""
    if spared > 0:
        would.append(f"{spared:,} of {plural(actual.rebalances, 'rebalance')}")
    if gain_ms > 0:
        was_ms = _unread_ms(actual, setting)
        share = f"{min(max(round(100 * gain_ms / was_ms), 1), 99)} %" if gain_ms < was_ms else "all"
        would.append(f"{share} of the unread time")
        added = f"; that is {duration(gain_ms)} of {duration(was_ms)}, partitions added up"
    price = _price(setting, history, actual, figures)
    change = _change(setting, history)
    cost = f", and left partitions unread for {duration(-gain_ms)} more" if gain_ms <= -_SECOND else ""
    return f"{change} would have spared {' and '.join(would)}{added}{cost}{f'; {price}' if price else ''}"


def _price(setting: Setting, history: History, actual: Figures, figures: Figures) -> str:
    waits = setting.rebalance_timeout_ms is None and setting.initial_delay_ms is None
    if waits and actual.detect_ms is not None and figures.detect_ms is not None:
        longer_ms = figures.detect_ms - actual.detect_ms
        if longer_ms >= _SECOND:
            return f"a crash would have stayed unnoticed {duration(round(longer_ms, -3))} longer"
        return ""
    patience_ms = max((one.rebalance_timeout_ms for one in history.stays), default=0)
    if setting.rebalance_timeout_ms is not None and setting.rebalance_timeout_ms > patience_ms:
        return f"a member that hangs would stay one for {duration(setting.rebalance_timeout_ms - patience_ms)} longer"
    if setting.initial_delay_ms is not None:
        longer_ms = setting.initial_delay_ms - history.initial_delay_ms
        return f"an empty group would wait {duration(longer_ms)} longer for company"
    session_ms = setting.session_timeout_ms or max((one.session_timeout_ms for one in history.stays), default=0)
    usual_ms = max((one.session_timeout_ms for one in history.stays), default=0)
    if setting.static and session_ms:
        return f"a member that stops for good would stay unnoticed for {duration(session_ms)}"
    if session_ms > usual_ms:
        return f"a crash would stay unnoticed {duration(session_ms - usual_ms)} longer"
    return ""


_SECOND: Final = 1_000


def _change(setting: Setting, history: History) -> str:
    change = words(setting)
    if (setting.protocol or history.protocol) == CONSUMER:
        # these two are configurations of the group on the server
        for name in ("session.timeout.ms=", "heartbeat.interval.ms="):
            change = change.replace(name, f"consumer.{name}")
    return change


def words(setting: Setting) -> str:
    """What a user must change, in the form of a client's settings."""
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
