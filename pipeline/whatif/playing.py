"""What replays of both protocols share: members that go, and a group that is deleted."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.state_machine.interface import Client, Command
from muster.protocol.messages.delete_groups import DeleteGroupsRequest

GONE: Final = (events.MEMBER_LEFT, events.MEMBER_EXPIRED, events.MEMBER_REMOVED)
"""Kinds of events with which a member is none any more."""


class _Tally(Protocol):
    """Costs of either protocol."""

    def gone(self, who: str, ms: int) -> None:
        """It has left or was removed."""

    def back(self, who: str, ms: int) -> None:
        """Another process is in its place."""


class _Named(Protocol):
    name: str


_Actor = TypeVar("_Actor", bound=_Named)


def gone(event: Event, members: dict[str, _Actor], costs: _Tally, ms: int) -> None:
    """A member has left or was removed."""
    facts: dict[str, Any] = event.facts
    actor = members.pop(facts["member"].member, None)
    if actor is not None:
        costs.gone(actor.name, ms)


def replaced(event: Event, members: dict[str, _Actor], costs: _Tally, ms: int) -> _Actor | None:
    """Another process has the instance id of a member: the owner is the same. The one that had it before."""
    facts: dict[str, Any] = event.facts
    old = members.pop(facts["replaced"], None)
    if old is not None:
        costs.back(old.name, ms)
    return old


def deletion(group_id: str) -> Command:
    """DeleteGroups, for which nobody waits."""
    return Command(DeleteGroupsRequest([group_id]), ignore, Client("", ""))


def ignore(_: object) -> None:
    """Nobody waits for this answer."""
