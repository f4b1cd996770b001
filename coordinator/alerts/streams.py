"""What events say about the topics, tasks and end of a streams group, for the rules of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.coordinator.alerts.stream_tasks import StreamTasks
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.pipeline.episodes.stream_facts import NOT_READY, SHUTDOWN, Streams, Topics


class StreamReports:
    """The topics that are not ready, the tasks, and the last shutdown of the application."""

    __slots__ = ("_shutdown", "_tasks", "_unready")

    def __init__(self) -> None:
        self._unready: Topics | None = None
        self._shutdown: Topics | None = None
        self._tasks = StreamTasks()

    @property
    def is_known(self) -> bool:
        """Whether anything is worth remembering."""
        return self._unready is not None or self._shutdown is not None or self._tasks.is_known

    def feed(self, event: Event, wall_ms: int) -> None:
        """Take an event; those of other kinds are ignored."""
        facts: Mapping[str, Any] = event.facts
        client_id = facts["member"].client_id if event.kind == events.APPLICATION_SHUTDOWN else None
        self._take(event.kind, facts, client_id, wall_ms)
        self._tasks.feed(event, wall_ms)

    def remember(self, value: Mapping[str, Any]) -> None:
        """Take an event of the history."""
        client_id = value["member"]["client_id"] if value["kind"] == events.APPLICATION_SHUTDOWN else None
        self._take(value["kind"], value, client_id, value["time"])

    def _take(self, kind: str, facts: Mapping[str, Any], client_id: str | None, wall_ms: int) -> None:
        if kind == events.TOPICS_NOT_READY:
            from_ms = wall_ms if self._unready is None else self._unready.from_ms
            self._unready = Topics(NOT_READY, from_ms, None, why=facts["detail"])
        elif kind == events.APPLICATION_SHUTDOWN:
            self._shutdown = Topics(SHUTDOWN, wall_ms, None, client=client_id)
        elif kind in (events.TOPICS_READY, events.GROUP_DELETED) or _is_empty(kind, facts):
            self._unready = None

    def forget(self, before_ms: int) -> None:
        """Forget a shutdown that is too old, and tasks of former members."""
        self._tasks.forget(before_ms)
        if self._shutdown is not None and self._shutdown.from_ms < before_ms:
            self._shutdown = None

    def facts(self) -> Streams:
        """What the rules read."""
        return Streams(self._tasks.holdings(), [one for one in (self._unready, self._shutdown) if one is not None])


def _is_empty(kind: str, facts: Mapping[str, Any]) -> bool:
    return kind == events.EPOCH_BUMPED and not facts["members"]
