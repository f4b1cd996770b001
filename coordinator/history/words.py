"""Texts for an operator: members, durations, causes, and lines of consumer groups (KIP-848)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from muster.coordinator.system.wall_time import format_wall

Value = Mapping[str, Any]
"""The JSON of one event."""


class Stamps:
    """Puts the time before lines, and a line before each new day. `zone`: a datetime.tzinfo; None: the local time."""

    def __init__(self, zone: Any, *, dates: bool) -> None:
        self._zone = zone
        self._dates = dates
        self._day = ""

    def lines(self, wall_ms: int, text: str | None) -> list[str]:
        """The line of an event, after a line for a new day. No lines when `text` is None."""
        if text is None:
            return []
        line = f"{format_wall(wall_ms, '%H:%M:%S', self._zone)} {text}"
        day = format_wall(wall_ms, "%Y-%m-%d", self._zone)
        if day == self._day or not self._dates:
            return [line]
        self._day = day
        return [f"--- {day}", line]


_DRAWN: Final = re.compile("[A-Za-z0-9+/_-]{22}")
"""A member id that a client of the consumer protocol has chosen: a UUID in base64."""


def who(member: Value) -> str:
    """A member in words: the instance id or the member id, the client id, the address."""
    name = f"static member {member['instance']}" if member.get("instance") else f"member {short(member['member'])}"
    return f"{name}{client_of(member)}"


def client_of(value: Value) -> str:
    """A client id and an address in brackets, as far as they are known."""
    known = [f"client {value['client_id']}" if value.get("client_id") else "", (value.get("host") or "").lstrip("/")]
    text = ", ".join(one for one in known if one)
    return f" ({text})" if text else ""


def short(member_id: str) -> str:
    """A member id without most of its UUID."""
    if _DRAWN.fullmatch(member_id):
        return f"{member_id[:8]}…"
    head, _, tail = member_id.rpartition("-")
    uuid = member_id[-36:]
    if len(member_id) > 36 and uuid.count("-") == 4:
        return f"{member_id[:-37]}-{uuid[:8]}…"
    return member_id if not head or len(tail) < 12 else f"{head}-{tail[:8]}…"


def seconds(ms: int) -> str:
    """A duration in words."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    return f"{ms // 60_000} min {ms % 60_000 // 1000} s"


def last_poll(value: Value) -> str:
    """When the member of an event has polled last, if its client has reported that it no longer polls."""
    return f"; its last poll was {seconds(value['time'] - value['last_poll'])} before" if "last_poll" in value else ""


def plural(count: int, word: str) -> str:
    """A number with a noun."""
    return f"{count} {many(word, count)}"


def many(word: str, count: int) -> str:
    """A noun, in the plural unless the count is 1."""
    return word if count == 1 else f"{word}s"


def ranges(numbers: Sequence[int]) -> str:
    """Write partition numbers in short form: 0-3,7."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or ordered[index] != ordered[index - 1] + 1:
            first, last = ordered[start], ordered[index - 1]
            parts.append(str(first) if first == last else f"{first}-{last}")
            start = index
    return ",".join(parts)


def phrase(cause: str, whose: str, how_long: str = "its session timeout") -> str:
    """A cause in words, with the member that has caused it."""
    words = CAUSES.get(cause, f"{{who}}: {cause.replace('_', ' ')}")
    return words.replace("{who}", whose).replace("{how long}", how_long).strip()


CAUSES: Final[dict[str, str]] = {
    "member_joined": "{who} joined",
    "member_left": "{who} left",
    "session_expired": "{who} sent no heartbeat for {how long}",
    "subscription_changed": "{who} changed its subscription",
    "metadata_changed": "{who} joined again with other metadata",
    "partitions_changed": "{who} (the leader) saw that partition counts had changed",
    "leader_rejoined": "{who} (the leader) joined again",
    "static_member_returned": "{who} came back",
    "join_timeout": "{who} did not join again in time",
    "sync_timeout": "{who} did not sync in time",
    "revocation_timeout": "{who} did not give up its partitions in time",
    "topics_changed": "topics have changed",
    "pattern_resolved": "a regular expression matches other topics",
    "partitions_ready": "the states of share partitions were set up",
    "group_full": "{who} found the group full",
    "assignment_too_large": "the assignment of {who} is larger than max.message.bytes of __consumer_offsets",
    "group_over_capacity": "the group was loaded with more members than group.max.size",
    "asked": "it was asked for",
}
"""The texts of causes. {who} is the member, {how long} a timeout."""


_ENDINGS: Final[dict[str, str]] = {
    "released": "{who} released {records}",
    "rejected": "{who} rejected {records}",
    "lock_over": "{who} held {records} until the lock was over",
    "session_ended": "{who} held {records} when its session ended",
    "dead_letter": "the dead-letter queue was given {records}",
    "letter_lost": "the dead-letter queue could not take {records}",
}
_STATES: Final[dict[str, str]] = {
    "available": "available again",
    "archiving": "on the way to the dead-letter queue",
    "archived": "archived",
}


def deliveries_failed(value: Value) -> str:
    """The line for records of a share group that were not accepted in their last delivery."""
    first, last = value["first_offset"], value["last_offset"]
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    records = f"{plural(value['records'], 'record')} of {value['topic']}-{value['partition']} ({offsets})"
    member = "a member" if value["member"] is None else f"member {short(value['member'])}"
    text = _ENDINGS.get(value["cause"], "{records}").format(who=member, records=records)
    after = "" if value["cause"] in ("dead_letter", "letter_lost") else f" in delivery {value['deliveries']}"
    more = f"; {plural(value['left_out'], 'more record')} before were not reported" if value["left_out"] else ""
    return f"{text}{after}: {_STATES.get(value['state'], value['state'])}{more}"


MAX_NAMED: Final = 5
"""How many topics, or members that others waited for, one line names."""
NOT_WORTH_A_WORD_MS: Final = 100
"""Shorter waits are not shown."""


def reconciled(value: Value, why: str, others: str, topics: Sequence[Value]) -> str:
    """The line for an epoch that all members have reached. `why`, `others`, `topics`: the causes of the epoch."""
    changed = ", ".join(map(_topic, topics[:MAX_NAMED]))
    parts = [f"{why} ({changed})" if why and changed else why or changed, others, _handed(value)]
    slow = [one for one in value["waited_for"] if one["took_ms"] >= NOT_WORTH_A_WORD_MS]
    if slow:
        more = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
        partitions = plural(slow[0]["partitions"], "partition")
        parts.append(f"waited {seconds(slow[0]['took_ms'])} for {partitions} of {who(slow[0]['member'])}{more}")
    if tasks := [one for one in value.get("tasks", ()) if one["unowned_ms"] >= NOT_WORTH_A_WORD_MS]:
        parts.append(f"nobody had {', '.join(map(_unowned, tasks[:MAX_NAMED]))}")
    count = value["members"]
    parts.append(f"{count} {many('member', count)}, {value['assignor'] or 'the same targets'}")
    text = "; ".join(part for part in parts if part)
    return f"{_epochs(value)}: {text}"


def _unowned(task: Value) -> str:
    return f"task {task['task']} for {seconds(task['unowned_ms'])} (now {short(task['member'])})"


def _tasks(value: Value, words: Callable[[Value], str]) -> str:
    """The tasks of an event: `words` has the words about each."""
    rows = [f"the {row['role']} task {row['task']} ({words(row)})" for row in value["tasks"][:MAX_NAMED]]
    more = value["count"] - len(rows)
    return f"{', '.join(rows)}{f' and {more} more' if more else ''}"


def _lacks(row: Value) -> str:
    return f"{plural(row['behind'], 'record')} behind"


def _took(row: Value) -> str:
    return f"{seconds(row['took_ms'])} after it got the task; {plural(row['behind'], 'record')}"


def emptied(value: Value) -> str:
    """The line for a group whose last member has left. A removed member has its own line."""
    trigger = value["trigger"]
    left = f": {who(trigger)} left" if value["cause"] == "member_left" and trigger is not None else ""
    return f"the group is empty (epoch {value['epoch']}){left}"


def _epochs(value: Value) -> str:
    took = "" if value["took_ms"] is None else f", {seconds(value['took_ms'])}"
    first, last = value["first_epoch"], value["epoch"]
    return f"epoch {min(first - 1, last)} → {last}{took}"


def _handed(value: Value) -> str:
    revoked, assigned = value["revoked"], value["assigned"]
    unit = value.get("unit", "partition")
    if not revoked and not assigned:
        return f"no {unit} moved"
    rest = value["members"] - value["changed"]
    kept = f"; {rest} of {value['members']} kept all {many(unit, 2)}" if rest > 0 else ""
    mean_ms = value["paused_partition_ms"] // assigned if assigned else 0
    after = f" after {seconds(mean_ms)} on average" if mean_ms >= NOT_WORTH_A_WORD_MS else ""
    if not revoked:
        return f"{plural(assigned, unit)} taken{after}{kept}"
    return f"{plural(revoked, unit)} given up, {assigned} taken{after}{kept}"


def subtopologies(names: Sequence[str]) -> str:
    """Subtopologies of an application of Kafka Streams, by their ids."""
    return f"subtopolog{'y' if len(names) == 1 else 'ies'} {', '.join(names)}"


def _parts(value: Mapping[str, Any]) -> str:
    names = value.get("subtopologies")  # old events have none
    return f" for {subtopologies(names)}" if names else ""


def _after(took_ms: int) -> str:
    return f" after {seconds(took_ms)}" if took_ms >= NOT_WORTH_A_WORD_MS else ""


def _topic(topic: Value) -> str:
    name, before, now = topic["topic"], topic["before"], topic["now"]
    if not before:
        return f"{name} is there, with {plural(now, 'partition')}"
    if not now:
        return f"{name} was deleted"
    return f"{name} was made again" if topic["made_again"] else f"{name} has {now} partitions instead of {before}"


def _bumped(value: Value) -> str:
    trigger = value["trigger"]
    changed = ", ".join(map(_topic, value["topics"][:MAX_NAMED]))
    text = phrase(value["cause"], "" if trigger is None else who(trigger))
    return f"epoch {value['epoch']} begins in {value['state']}: {text}{f' ({changed})' if changed else ''}"


def _target(value: Value) -> str:
    moved = [f"{value[name]} {words}" for name, words in _HANDS if value[name]]
    changed = plural(value["changed"], "member")
    waited = f", {seconds(value['since_epoch_ms'])} after it began" if value["since_epoch_ms"] else ""
    return (
        f"epoch {value['epoch']} has its targets{waited} ({value['assignor']}, computed in "
        f"{seconds(value['took_ms'])}): {changed} of {value['members']} "
        f"{'has' if value['changed'] == 1 else 'have'} another; {many(value.get('unit', 'partition'), 2)}: "
        f"{', '.join(moved) or 'none moves'}"
    )


_HANDS: Final = (("moved", "to move"), ("gained", "newly owned"), ("lost", "without an owner"))


def _member(value: Value) -> str:
    parts = []
    if value["revoked"]:
        after = f" in {seconds(value['revoking_ms'])}" if value["revoking_ms"] else ""
        parts.append(f"gave up {plural(value['revoked'], 'partition')}{after}{_names(value['gave_up'])}")
    if value["assigned"]:
        parts.append(f"got {plural(value['assigned'], 'partition')}")
    if value["waited_ms"]:
        holders = ", ".join(map(short, value["waited_for"]))
        parts.append(f"waited {seconds(value['waited_ms'])} for {holders or 'others'}")
    text = "; ".join(parts) or "has what it had"
    return f"{who(value['member'])} reached epoch {value['epoch']} in {seconds(value['took_ms'])}: {text}"


def _names(gave_up: Sequence[Value]) -> str:
    rows = [f"{one['topic']}: {' '.join(map(str, one['partitions']))}" for one in gave_up[:MAX_NAMED]]
    return f" ({', '.join(rows)}{', …' if len(gave_up) > MAX_NAMED else ''})" if rows else ""


def _migrated(value: Value, what: str, count: str) -> str:
    trigger = value["trigger"]
    why = "" if trigger is None else phrase(value.get("cause", "member_joined"), who(trigger))
    return f"{what} in epoch {value['epoch']}, {count}{': ' if why else ''}{why}"


EPOCH_LINES: Final[dict[str, Callable[[Value], str]]] = {
    "epoch_bumped": _bumped,
    "target_assigned": _target,
    "target_failed": lambda value: (
        f"the assignor {value['assignor']} failed after {seconds(value['took_ms'])}: epoch {value['epoch']} has no "
        "targets, the members keep those of the epoch before"
    ),
    "member_reconciled": _member,
    "member_away": lambda value: (
        f"{who(value['member'])} has gone and will be back: its partitions are kept for "
        f"{seconds(value['member']['session_timeout_ms'])}"
    ),
    "topics_not_ready": lambda value: f"the topics of the application are not ready{_parts(value)}: {value['detail']}",
    "topics_ready": lambda value: (
        f"the topics of the application are ready{_after(value['took_ms'])}: topology {value['topology_epoch']}"
    ),
    "tasks_restoring": lambda value: f"{who(value['member'])} restores {_tasks(value, _lacks)}",
    "tasks_restored": lambda value: f"{who(value['member'])} has restored {_tasks(value, _took)}",
    "application_shutdown": lambda value: (
        f"{who(value['member'])} had an error, and asked all members to end the application"
    ),
    "group_upgraded": lambda value: _migrated(
        value, "the classic group became a consumer group", f"with {plural(value['members'], 'classic member')}"
    ),
    "group_downgraded": lambda value: _migrated(
        value, "the group became a classic group", f"{plural(value['members'], 'member')} left in it"
    ),
}
