"""The truth with which the inference is scored, in the form that `tests.pipeline.scoring` reads. It is made of what a
real Kafka logs of its rebalances (level INFO), and of what a script did to its groups.

The broker logs who made a group rebalance, and how: the member joined, left, expired or joined again. Only the script,
or the client's reason, says why a member joined again. Without both, the truth is unsure of the rebalance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ")
_BEGAN: Final = re.compile(r"Preparing to rebalance group (\S+) in .* \(reason: (.*)\)\.$")
_ENDED: Final = (
    re.compile(r"Assignment received from leader \S+ for group (\S+) for generation (\d+)\."),
    re.compile(r"Group (\S+) with generation (\d+) is now empty"),
)
_CAUSES: Final = (
    ("member_joined", re.compile(r"Adding new member (\S+) with group instance id")),
    ("member_left", re.compile(r"explicit `LeaveGroup` request for \(([^,)]+)")),
    ("session_expired", re.compile(r"removing member (\S+) on heartbeat expiration")),
    ("leader_rejoined", re.compile(r"Leader (\S+) re-joining group")),
    ("metadata_changed", re.compile(r"Updating metadata for member (\S+) during")),
)
_AGAIN: Final = ("leader_rejoined", "metadata_changed")
_SECOND_ROUND: Final = "need to revoke partitions"
"""The Java client's words for why it joins again when it has given partitions up."""
SOON_MS: Final = 20_000
"""An action on a member has an effect by then, or never."""
_UUID: Final = 36


class Action(NamedTuple):
    """An action of the script that makes a member join again."""

    at_ms: int
    group: str
    cause: str
    client_id: str | None
    """The member that must join again; None: whoever sees the change first."""


class _Begun(NamedTuple):
    at_ms: int
    cause: str | None
    client_id: str


def truth(log: Iterable[str], actions: Sequence[Action], ends: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """The lines. `ends`: when the script stopped to act on each group; what happened later is reported as `unsure`."""
    begun: dict[str, _Begun] = {}
    last = dict.fromkeys(ends, 0)
    todo = list(actions)
    for line in log:
        if (time := _TIME.match(line)) is None:
            continue
        at_ms = round(datetime.strptime(time[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() * 1000)
        if (found := _BEGAN.search(line)) is not None:
            group, reason = found.groups()
            cause, client_id = _cause(reason)
            if cause in _AGAIN:
                cause = _why_again(todo, Action(at_ms, group, cause, client_id), reason)
            begun[group] = _Begun(at_ms, cause, client_id)
        elif (found := _ENDED[0].search(line) or _ENDED[1].search(line)) is not None:
            group, generation = found[1], int(found[2])
            if group not in begun or begun[group].at_ms > ends.get(group, 0):
                continue
            last[group] = generation
            yield _line(group, generation, begun.pop(group), at_ms)
    for group, generation in last.items():
        yield {"kind": "unsure", "group": group, "first": generation + 1, "last": None}


def _cause(reason: str) -> tuple[str | None, str]:
    """The cause by the broker's words; and the client id in the member id."""
    for cause, pattern in _CAUSES:
        if (found := pattern.search(reason)) is not None:
            return cause, found[1][: -_UUID - 1]
    return None, "?"


def _why_again(todo: list[Action], again: Action, reason: str) -> str | None:
    if _SECOND_ROUND in reason:
        return "metadata_changed"
    for one in todo:
        is_its = one.group == again.group and one.client_id in (again.client_id, None)
        if is_its and 0 <= again.at_ms - one.at_ms < SOON_MS:
            todo.remove(one)
            return one.cause
    # a leader may have given partitions up, or may have seen other ones
    return None if again.cause == "leader_rejoined" else again.cause


def _line(group: str, generation: int, begun: _Begun, at_ms: int) -> dict[str, Any]:
    if begun.cause is None:
        return {"kind": "unsure", "group": group, "first": generation, "last": generation}
    return {
        "kind": "rebalance", "group": group, "generation": generation, "cause": begun.cause,
        "trigger": {"client_id": begun.client_id}, "acted": begun.at_ms, "settled": at_ms,
    }  # fmt: skip
