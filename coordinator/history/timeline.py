"""Makes lines for an operator from events of `__group_events`. This module does no I/O.

A completed rebalance is one line: the duration, the cause and its member, the moved partitions. The line also counts
the members that joined and left meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.history import words
from muster.coordinator.history.words import Stamps, Value, many, phrase, plural, seconds, short, who


class Timeline:
    """Makes the lines of one group."""

    def __init__(self, zone: Any = None, *, dates: bool = True, everything: bool = False) -> None:
        """`zone`: a datetime.tzinfo; None: the local time. `everything`: events within other lines get lines too."""
        self._stamps = Stamps(zone, dates=dates)
        self._everything = everything
        self._went: dict[str, Value] = {}
        self._joined: list[str] = []
        self._gone: list[str] = []
        self._topics: list[Value] = []

    def feed(self, value: Value) -> list[str]:
        """The lines that this event adds. No lines when the event is part of a later line."""
        return self._stamps.lines(value["time"], self.text(value))

    def text(self, value: Value) -> str | None:
        """The line of an event without its time; None when the event is part of a later line."""
        kind = value["kind"]
        self._remember(kind, value)
        make_line = _LINES.get(kind)
        if make_line is None and kind == "rebalance_completed":
            text: str | None = self._completed(value)
        elif make_line is None and kind == "epoch_reconciled":
            text = words.reconciled(value, self._why(value), self._others(value["trigger"]), self._topics)
        elif make_line is None:
            text = _unknown(value) if self._everything else None
        elif kind == "epoch_bumped" and not value["members"]:
            text = words.emptied(value)
        elif kind in _DETAILS and not self._everything:
            text = None
        elif kind == "group_emptied" and not self._everything:
            text = f"{make_line(value)}{self._who_left()}"
        else:
            text = make_line(value)
        if kind in _ENDS or (kind == "epoch_bumped" and not value["members"]):
            self._went, self._joined, self._gone, self._topics = {}, [], [], []
        return text

    def _remember(self, kind: str, value: Value) -> None:
        if kind == "member_joined":
            self._joined.append(value["member"]["member"])
        elif kind in ("member_left", "member_expired", "member_removed"):
            member = value["member"]["member"]
            self._gone.append(member)
            self._went[member] = value
        elif kind == "epoch_bumped":
            self._topics += value["topics"][: words.MAX_NAMED - len(self._topics)]

    def _completed(self, value: Value) -> str:
        generation = value["generation"]
        parts = [self._why(value)]
        others = self._others(value["trigger"])
        if others:
            parts.append(others)
        moved = _moved(value["moves"])
        if moved:
            parts.append(moved)
        count = len(value["members"])
        parts.append(f"{count} {many('member', count)}, {value['protocol'] or 'no protocol'}")
        return f"rebalance {generation - 1} → {generation}, {seconds(value['took_ms'])}: {'; '.join(parts)}"

    def _why(self, value: Value) -> str:
        trigger = value["trigger"]
        if trigger is None:
            return phrase(value["cause"], "") if value["cause"] is not None else ""
        went = self._went.get(trigger["member"])
        how_long = seconds(went["member"]["session_timeout_ms"]) if went is not None else "its session timeout"
        text = phrase(value["cause"], who(trigger), how_long)
        text = f'{text} ("{trigger["reason"]}")' if trigger["reason"] else text
        return text if went is None else f"{text}{words.last_poll(went)}"

    def _who_left(self) -> str:
        left = [one for one in self._went.values() if one["kind"] == "member_left"]
        if not left:
            return ""
        before = f", {len(left) - 1} more before it" if len(left) > 1 else ""
        return f": {who(left[-1]['member'])} left{_reason(left[-1])}{words.last_poll(left[-1])}{before}"

    def _others(self, trigger: Value | None) -> str:
        first = None if trigger is None else trigger["member"]
        joined = len([one for one in self._joined if one != first])
        gone = len([one for one in self._gone if one != first])
        parts = [f"{joined} more joined"] if joined else []
        return " and ".join([*parts, *([f"{gone} more went"] if gone else [])])


def _moved(moves: list[Value] | None) -> str:
    if moves is None:
        return ""
    total = {name: sum(one[name] for one in moves) for name in ("moved", "kept", "gained", "lost")}
    first = total["moved"] or total["kept"] or not (total["gained"] or total["lost"])
    parts = [f"{total['moved']} {many('partition', total['moved'])} moved, {total['kept']} kept"] if first else []
    parts += [f"{total['gained']} newly owned"] if total["gained"] else []
    parts += [f"{total['lost']} without an owner"] if total["lost"] else []
    return ", ".join(parts)


def _reason(value: Value) -> str:
    return f': "{value["reason"]}"' if value.get("reason") else ""


def _partitions(value: Value) -> str:
    return ", ".join(f"{topic}: {' '.join(map(str, rows))}" for topic, rows in value["topics"].items())


def _unknown(value: Value) -> str:
    return f"{value['kind'].replace('_', ' ')}"


def _started(value: Value) -> str:
    trigger = value["trigger"]
    text = phrase(value["cause"], "" if trigger is None else who(trigger))
    return f"a rebalance begins in {value['state']}: {text}"


def _failed(value: Value) -> str:
    return (
        f"rebalance to generation {value['generation']} did not complete, {seconds(value['took_ms'])}: another began, "
        f"since {phrase(value['cause'], 'a member')}"
    )


def _refused(value: Value) -> str:
    count = value["count"]
    if value["api"] is None:
        return f"{count} more requests were refused, of many clients"
    client = {"member": "", "instance": value["instance"], "client_id": value["client_id"], "host": value["host"]}
    text = who(client).removeprefix("member  ").strip("()") if not value["instance"] else who(client)
    return f"{count} {value['api']} {many('request', count)} of {text} refused: {value['error']}"


def _ended(value: Value) -> str:
    first, last = value["first_epoch"], value["last_epoch"]
    epochs = f"epoch {first}" if first == last else f"epochs {first} to {last}"
    return f"{plural(value['transactions'], 'transaction')} of producer {value['producer_id']} ({epochs})"


_DETAILS: Final = frozenset(
    {
        "epoch_bumped", "member_joined", "member_left", "member_reconciled", "members_synced", "rebalance_started",
        "target_assigned", "transactions_committed",
    }
)  # fmt: skip
"""Events without a line of their own: parts of a rebalance, and frequent events."""

_ENDS: Final = frozenset(
    {"epoch_reconciled", "group_deleted", "group_downgraded", "group_emptied", "group_upgraded", "rebalance_completed"}
)
"""The lines of these events contain the earlier events, which are then forgotten."""

_LINES: Final[dict[str, Callable[[Value], str]]] = {
    "group_created": lambda _: "the group was created",
    "group_emptied": lambda value: f"the group is empty (generation {value['generation']})",
    "group_deleted": lambda _: "the group was deleted",
    "member_joined": lambda value: f"{who(value['member'])} joined{_reason(value)}",
    "member_left": lambda value: f"{who(value['member'])} left{_reason(value)}{words.last_poll(value)}",
    "member_expired": lambda value: (
        f"{who(value['member'])} sent no heartbeat for {seconds(value['member']['session_timeout_ms'])} and was removed"
        f"{words.last_poll(value)}"
    ),
    "member_removed": lambda value: (
        f"{phrase(value['cause'], who(value['member']))} and was removed{words.last_poll(value)}"
    ),
    "member_replaced": lambda value: (
        f"{who(value['member'])} came back as {short(value['member']['member'])}; {short(value['replaced'])} is fenced"
    ),
    "members_synced": lambda value: (
        f"{len(value['synced'])} {many('member', len(value['synced']))} of generation {value['generation']} synced late"
    ),
    "group_restless": lambda value: f"{value['text']}: {plural(value['times'], 'time')}",
    "deliveries_failed": words.deliveries_failed,
    "rebalance_started": _started,
    "rebalance_failed": _failed,
    **words.EPOCH_LINES,
    "offsets_deleted": lambda value: f"offsets were deleted ({value['cause'].replace('_', ' ')}): {_partitions(value)}",
    "offsets_expired": lambda value: f"offsets expired: {_partitions(value)}",
    "requests_refused": _refused,
    "member_fenced": _refused,
    "producer_fenced": lambda value: f"{_refused(value)}: a newer producer has its transactional id",
    "transactions_committed": lambda value: f"{_ended(value)} committed: {plural(value['offsets'], 'offset')}",
    "transactions_aborted": lambda value: (
        f"{_ended(value)} aborted: {plural(value['offsets'], 'offset')} will never count"
    ),
    "shard_loaded": lambda value: (
        f"the server read its log: {value['groups']} groups of partition {value['partition']} in "
        f"{seconds(value['took_ms'])}"
    ),
}
