"""Events of a group of the consumer protocol (KIP-848), as lines for an operator. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from muster.coordinator.history.words import Value, many, phrase, plural, seconds, short, who

MOST: Final = 5
"""Topics that one line names, or members that others waited for."""
NOT_WORTH_A_WORD_MS: Final = 100
"""A shorter wait is not reported."""


def reconciled(value: Value, why: str, others: str, topics: Sequence[Value]) -> str:
    """The line for an epoch that all members have reached.

    `why` and `others`: members that joined, left, or changed their subscription. `topics`: the topics that have
    changed.
    """
    changed = ", ".join(map(_topic, topics[:MOST]))
    parts = [f"{why} ({changed})" if why and changed else why or changed, others, _handed(value)]
    slow = [one for one in value["waited_for"] if one["took_ms"] >= NOT_WORTH_A_WORD_MS]
    if slow:
        more = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
        partitions = plural(slow[0]["partitions"], "partition")
        parts.append(f"waited {seconds(slow[0]['took_ms'])} for {partitions} of {who(slow[0]['member'])}{more}")
    count = value["members"]
    parts.append(f"{count} {many('member', count)}, {value['assignor'] or 'the same targets'}")
    told = "; ".join(part for part in parts if part)
    return f"{_epochs(value)}: {told}"


def emptied(value: Value) -> str:
    """The line for a group whose last member has left. A member that was removed has a line of its own."""
    trigger = value["trigger"]
    left = f": {who(trigger)} left" if value["cause"] == "member_left" and trigger is not None else ""
    return f"the group is empty (epoch {value['epoch']}){left}"


def _epochs(value: Value) -> str:
    took = "" if value["took_ms"] is None else f", {seconds(value['took_ms'])}"
    first, last = value["first_epoch"], value["epoch"]
    return f"epoch {min(first - 1, last)} → {last}{took}"


def _handed(value: Value) -> str:
    revoked, assigned = value["revoked"], value["assigned"]
    if not revoked and not assigned:
        return "no partition changed hands"
    rest = value["members"] - value["changed"]
    kept = f"; {rest} of {value['members']} kept working untouched" if rest > 0 else ""
    mean_ms = value["paused_partition_ms"] // assigned if assigned else 0
    after = f" after {seconds(mean_ms)} in the mean" if mean_ms >= NOT_WORTH_A_WORD_MS else ""
    if not revoked:
        return f"{plural(assigned, 'partition')} taken{after}{kept}"
    return f"{plural(revoked, 'partition')} given up, {assigned} taken{after}{kept}"


def _topic(topic: Value) -> str:
    name, before, now = topic["topic"], topic["before"], topic["now"]
    if not before:
        return f"{name} is there, with {plural(now, 'partition')}"
    if not now:
        return f"{name} was deleted"
    return f"{name} was made again" if topic["made_again"] else f"{name} has {now} partitions instead of {before}"


def _bumped(value: Value) -> str:
    trigger = value["trigger"]
    changed = ", ".join(map(_topic, value["topics"][:MOST]))
    told = phrase(value["cause"], "" if trigger is None else who(trigger))
    return f"epoch {value['epoch']} begins in {value['state']}: {told}{f' ({changed})' if changed else ''}"


def _target(value: Value) -> str:
    moved = [f"{value[name]} {words}" for name, words in _HANDS if value[name]]
    changed = plural(value["changed"], "member")
    waited = f", {seconds(value['since_epoch_ms'])} after it began" if value["since_epoch_ms"] else ""
    return (
        f"targets of epoch {value['epoch']} are there{waited} ({value['assignor']}, computed in "
        f"{seconds(value['took_ms'])}): {changed} of {value['members']} "
        f"{'has' if value['changed'] == 1 else 'have'} another; partitions: {', '.join(moved) or 'none moves'}"
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
    told = "; ".join(parts) or "has what it had"
    return f"{who(value['member'])} came to epoch {value['epoch']} in {seconds(value['took_ms'])}: {told}"


def _names(gave_up: Sequence[Value]) -> str:
    rows = [f"{one['topic']}: {' '.join(map(str, one['partitions']))}" for one in gave_up[:MOST]]
    return f" ({', '.join(rows)}{', …' if len(gave_up) > MOST else ''})" if rows else ""


def _migrated(value: Value, what: str, count: str) -> str:
    trigger = value["trigger"]
    why = "" if trigger is None else phrase(value.get("cause", "member_joined"), who(trigger))
    return f"{what} in epoch {value['epoch']}, {count}{': ' if why else ''}{why}"


TELL: Final[dict[str, Callable[[Value], str]]] = {
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
    "group_upgraded": lambda value: _migrated(
        value, "the classic group became a consumer group", f"with {plural(value['members'], 'classic member')}"
    ),
    "group_downgraded": lambda value: _migrated(
        value, "the group became a classic group", f"{plural(value['members'], 'member')} left in it"
    ),
}
