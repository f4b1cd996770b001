"""The active tasks of a streams group's members, by the targets in events, for the rules of the pipeline.

Targets in events name only members that change. So the tasks are known if the server saw the group's creation.
"""

from __future__ import annotations

from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.streams.tasks import Tasks
from muster.pipeline.episodes.stream_facts import Holding, instance_name
from muster.pipeline.infer.stream_tasks import ACTIVE, GIVEN_UP, MEMBER_GONE

MAX_TASKS: Final = 2_000
"""Applications with more active tasks are not judged by their tasks."""
STREAMS: Final = "streams"
_GONE: Final = (events.MEMBER_LEFT, events.MEMBER_EXPIRED, events.MEMBER_REMOVED)
Task = tuple[str, int]


class StreamTasks:
    """The active tasks of one group, now and lately."""

    __slots__ = ("_clients", "_ended", "_held", "_is_whole")

    def __init__(self) -> None:
        self._clients: dict[str, str] = {}
        self._held: dict[str, dict[Task, int]] = {}
        """For each member, since when it has each task."""
        self._ended: list[Holding] = []
        self._is_whole = False

    def feed(self, event: Event, wall_ms: int) -> None:
        """Take an event; those of other kinds are ignored."""
        kind, facts = event.kind, event.facts
        if kind == events.TARGET_ASSIGNED:
            changes: Any = facts["changes"]
            for member_id, _, target in changes:
                if isinstance(target, Tasks):
                    now = {(name, number) for name, its in target.active.items() for number in its}
                    self._has(member_id, now, wall_ms, GIVEN_UP)
        elif kind in (events.MEMBER_JOINED, events.MEMBER_REPLACED):
            self._joined(facts)
        elif kind in _GONE:
            member: Any = facts["member"]
            self._has(member.member, set(), wall_ms, MEMBER_GONE)
            self._clients.pop(member.member, None)
        elif kind in (events.GROUP_CREATED, events.GROUP_DELETED):
            self._clients, self._held, self._ended = {}, {}, []
            self._is_whole = kind == events.GROUP_CREATED

    def _joined(self, facts: dict[str, Any]) -> None:
        replaced, member = facts.get("replaced"), facts["member"]
        if replaced in self._clients:
            del self._clients[replaced]
            self._held[member.member] = self._held.pop(replaced, {})
        elif facts.get("protocol_type") != STREAMS:
            return
        self._clients[member.member] = member.client_id

    def _has(self, member_id: str, now: set[Task], wall_ms: int, ended: str) -> None:
        had = self._held.pop(member_id, {})
        gone = [task for task in had if task not in now]
        self._ended += [self._holding(member_id, task, had[task], wall_ms, ended) for task in gone]
        del self._ended[:-MAX_TASKS]
        if now:
            self._held[member_id] = {task: had.get(task, wall_ms) for task in now}

    def _holding(self, member_id: str, task: Task, from_ms: int, until_ms: int | None, ended: str | None) -> Holding:
        client = self._clients.get(member_id)
        return Holding(*task, ACTIVE, member_id, client, instance_name(client) or None, from_ms, until_ms, ended, None)

    def forget(self, before_ms: int) -> None:
        """Forget what ended before."""
        self._ended = [one for one in self._ended if one.end_ms(before_ms) >= before_ms]

    @property
    def is_known(self) -> bool:
        """Whether any member has tasks."""
        return bool(self._held)

    def holdings(self) -> list[Holding]:
        """Who has which task, and had it lately. Empty if not all tasks are known."""
        if not self._is_whole or sum(map(len, self._held.values())) > MAX_TASKS:
            return []
        now = [
            self._holding(member_id, task, from_ms, None, None)
            for member_id, its in self._held.items()
            for task, from_ms in its.items()
        ]
        return [*self._ended, *now]
