"""What happens in a group now, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from muster.coordinator.history.words import many, plural, seconds, short
from muster.coordinator.http.described_groups import CLASSIC, SHARE, STREAMS, Description, pending_revocations
from muster.coordinator.http.described_tasks import task_lines
from muster.coordinator.http.live_groups import LiveGroup


class Does(NamedTuple):
    """What a member does now. Only Muster knows it."""

    words: str
    is_settled: bool
    """Whether nothing is left to do."""
    silent_ms: int | None = None
    """The time since its last request; None: it is not known."""
    session_ms: int = 0
    """Its session timeout."""

    @property
    def is_silent(self) -> bool:
        """Whether the member sends fewer heartbeats than clients do, which send three in a session."""
        return self.silent_ms is not None and self.silent_ms > self.session_ms * SILENT_PART > 0


Doing = Mapping[str, Does]
"""What members do, by member id."""
SILENT_PART: Final = 0.4
"""A member that is silent for this part of its session timeout is named."""
MAX_NAMED: Final = 5
"""How many members one sentence names."""
MAX_SENTENCES: Final = 12
"""The most sentences about a group; the number of further ones is named."""


def sentences(found: Description, live: LiveGroup, doing: Doing, sizes: Mapping[str, int]) -> list[str]:
    """The sentences. `sizes`: the number of partitions of each topic."""
    lines = [
        _state(found),
        *_waiting(found, doing),
        *_silent(found, doing),
        *(f"{_begun(line)}." for line in pending_revocations(found)),
        *(f"{line}." for line in task_lines(found.members)),
        *_without_owner(found, sizes),
    ]
    lines += _lag(found, live)
    more = len(lines) - MAX_SENTENCES
    return lines if more <= 0 else [*lines[:MAX_SENTENCES], f"{more} more sentences are left out"]


def _begun(line: str) -> str:
    """With a capital letter, unless the line begins with the id of a member."""
    return f"T{line[1:]}" if line.startswith("the ") else line


def _state(found: Description) -> str:
    count = plural(len(found.members), "member")
    unit = "active task" if found.type == STREAMS else "partition"
    if not found.members:
        return "The group has no members: nobody reads."
    if found.state == "PreparingRebalance":
        return f"A rebalance is in progress: members join again, {count} until now."
    if found.state == "CompletingRebalance":
        return f"A rebalance is in progress: {count} joined, and the leader computes the assignment."
    if found.state in ("Assigning", "Reconciling"):
        return f"Epoch {found.epoch} is in progress: {count} move to their new {unit}s."
    owned = sum(len(rows) for one in found.members for rows in (one.assignment or {}).values())
    has = "has" if len(found.members) == 1 else "have"
    if found.type == SHARE:
        places = {
            (topic, one) for each in found.members for topic, rows in (each.assignment or {}).items() for one in rows
        }
        shares = "shares" if len(found.members) == 1 else "share"
        return f"The group is {found.state}: {count} {shares} {plural(len(places), 'partition')}."
    return f"The group is {found.state}: {count} {has} {plural(owned, unit)}."


def _waiting(found: Description, doing: Doing) -> list[str]:
    late = [one for one in found.members if one.member in doing and not doing[one.member].is_settled]
    by_words: dict[str, list[str]] = {}
    for one in late:
        by_words.setdefault(doing[one.member].words, []).append(one.instance or short(one.member))
    lines = []
    for words, names in sorted(by_words.items()):
        named = ", ".join(names[:MAX_NAMED])
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        lines.append(f"The group waits for {named}{more}: {'each ' if len(names) > 1 else 'it '}{words}.")
    return lines


def _silent(found: Description, doing: Doing) -> list[str]:
    lines = []
    for one in found.members:
        does = doing.get(one.member)
        if does is not None and does.is_silent and does.silent_ms is not None:
            left_ms = max(does.session_ms - does.silent_ms, 0)
            name = one.instance or short(one.member)
            lines.append(f"{name} is silent for {seconds(does.silent_ms)}: it is removed in {seconds(left_ms)}.")
    return lines[:MAX_NAMED]


def _without_owner(found: Description, sizes: Mapping[str, int]) -> list[str]:
    if found.state != "Stable" or not found.members or found.type not in (CLASSIC, "consumer"):
        return []
    owned: dict[str, set[int]] = {}
    for one in found.members:
        for topic, partitions in (one.assignment or {}).items():
            owned.setdefault(topic, set()).update(partitions)
    lines = []
    for topic, rows in sorted(owned.items()):
        missing = sizes.get(topic, 0) - len(rows)
        if missing > 0:
            lines.append(f"{plural(missing, 'partition')} of {topic} {'has' if missing == 1 else 'have'} no owner.")
    idle = [one for one in found.members if one.assignment == {}]
    if idle:
        named = ", ".join(one.instance or short(one.member) for one in idle[:MAX_NAMED])
        lines.append(f"{plural(len(idle), 'member')} {'has' if len(idle) == 1 else 'have'} no partitions: {named}.")
    return lines


def _lag(found: Description, live: LiveGroup) -> list[str]:
    lag, rates = live.lag, live.rates
    if not live.samples or not live.partitions:
        return ["The group has committed no offsets."] if found.type != SHARE else []
    if live.unknown:
        return [f"The lag of {plural(live.unknown, 'partition')} is not known here."]
    if not lag:
        return ["All records are read: the lag is 0."]
    text = f"{lag:,} {many('record', lag)} {'is' if lag == 1 else 'are'} not read yet"
    if rates.committed_s is None or rates.written_s is None:
        return [f"{text}."]
    pace = f"{rates.committed_s:.1f} records a second are read, {rates.written_s:.1f} are written"
    if live.is_stuck:
        return [f"{text}, and nothing was committed lately."]
    catch_up_s = rates.catch_up_s(lag)
    if live.grows:
        return [f"{text}, and the lag grows: {pace}."]
    if catch_up_s is not None:
        return [f"{text}: {pace}, so the group catches up in {seconds(round(catch_up_s * 1000))}."]
    return [f"{text}: {pace}."]
