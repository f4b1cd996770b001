"""What the tables show about the tasks of a streams group: the input of `stream_trouble`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

READY: Final = "ready"
NOT_READY: Final = "not_ready"
SHUTDOWN: Final = "shutdown"
"""The values of the column `state` of the table `topologies`."""
_THREAD: Final = re.compile(r"-StreamThread-\d+(-consumer)?$")


def instance_name(client: str | None) -> str:
    """The client id of an instance: that of a thread without the number of the thread. Empty if it is not known."""
    return _THREAD.sub("", client or "")


class Holding(NamedTuple):
    """A time in which a member had a task in one role: a row of the table `tasks`."""

    subtopology: str
    partition: int
    role: str
    member_id: str
    client: str | None
    process: str | None
    from_ms: int
    until_ms: int | None
    """None means that it still has the task in this role."""
    ended: str | None
    """How it ended (infer.stream_tasks). None means that it has not ended."""
    unowned_ms: int | None
    """How long nobody had the active task before. None means that nobody had it before."""

    @property
    def task(self) -> str:
        """The name of the task, as Kafka Streams writes it."""
        return f"{self.subtopology}_{self.partition}"

    @property
    def instance(self) -> str:
        """What identifies the instance: all of its threads have the same process id."""
        return self.process or self.member_id

    @property
    def name(self) -> str:
        """The instance in words: its client id without the number of the thread."""
        return instance_name(self.client) or self.instance

    def end_ms(self, log_end_ms: int) -> int:
        """When it ended, or the end of the log."""
        return log_end_ms if self.until_ms is None else self.until_ms


class Topics(NamedTuple):
    """A time in which topics were ready or not, or a shutdown: a row of the table `topologies`."""

    state: str
    from_ms: int
    until_ms: int | None
    sources: Sequence[str] = ()
    missing: Sequence[str] | None = None
    """Source topics that are not there at the end of the log; None: not known."""
    why: str | None = None
    client: str | None = None
    """The client id of the member that asked for the shutdown."""


class Streams(NamedTuple):
    """The facts about one streams group. Other groups have none."""

    tasks: Sequence[Holding] = ()
    topics: Sequence[Topics] = ()


NO_STREAMS = Streams()
