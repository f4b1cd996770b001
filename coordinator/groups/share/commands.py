"""Requests for changes of states that are kept outside of the group, and the commands with their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from muster.coordinator.state_machine.interface import Command
from muster.protocol.message import Message

Failures = Mapping[tuple[bytes, int], tuple[int, str | None]]
"""Error code and message for each partition (topic id, number) whose state could not be changed."""


@dataclass(slots=True, eq=False, repr=False)
class StatesWanted(Message):
    """The request to create the states of these partitions. It leaves the core like a reply, when the log is durable.

    A request of administrators waits for the result in `command`, with its `response`. A heartbeat does not wait.
    """

    group_id: str
    epoch: int
    offsets: Mapping[bytes, Mapping[int, int]]
    """The start offset of each partition, by topic id and partition. -1: the partition's leader is to choose it."""
    _: KW_ONLY
    command: Command | None = None
    response: Any = None


class StatesCreated(NamedTuple):
    """The command with the result of a `StatesWanted`."""

    wanted: StatesWanted
    failures: Failures

    @property
    def command(self) -> Command | None:
        """The request that waits for the result."""
        return self.wanted.command


@dataclass(slots=True, eq=False, repr=False)
class StatesUnwanted(Message):
    """The request to delete the states of these partitions, for the request in `command`."""

    command: Command
    partitions: Mapping[str, Mapping[bytes, Sequence[int]]]
    """Partitions by group and topic id."""
    response: Any = None


class StatesDeleted(NamedTuple):
    """The command with the result of a `StatesUnwanted`: failures by group."""

    wanted: StatesUnwanted
    failures: Mapping[str, Failures]

    @property
    def command(self) -> Command:
        """The request that waits for the result."""
        return self.wanted.command
