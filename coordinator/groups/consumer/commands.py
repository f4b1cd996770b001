"""What the core is given for consumer groups, and what it wants done elsewhere, besides requests and replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from muster.assignors.assignor import Assignment, Member, Topic
from muster.coordinator.core.interface import Client, Command, Respond
from muster.coordinator.groups.common.image import TopicsImage
from muster.protocol.message import Message


class ConsumerHeartbeatCommand(Command):
    """A ConsumerGroupHeartbeat. `drawn_id`: a fresh UUID, for a member without an id; `pattern_error`: what is wrong
    with its regular expression, as RE2 says it; None when nothing is; `version`: of the request.
    """

    __slots__ = ("drawn_id", "pattern_error", "version")

    def __init__(
        self,
        request: Message,
        respond: Respond,
        client: Client,
        *,
        drawn_id: str = "",
        pattern_error: str | None = None,
        version: int = 1,
    ) -> None:
        super().__init__(request, respond, client)
        self.drawn_id = drawn_id
        self.pattern_error = pattern_error
        self.version = version


class AssignmentWanted(NamedTuple):
    """A target assignment to be computed, by this assignor."""

    group_id: str
    epoch: int
    assignor: str
    members: Sequence[Member]
    topics: Mapping[str, Topic]
    waiting: list[Command]
    """Heartbeats that wait for it: who has no epoch yet."""


class AssignmentComputed(NamedTuple):
    """The command that brings it. `assignment` is None when the assignor failed."""

    wanted: AssignmentWanted
    assignment: Assignment | None


class TopicsWanted(NamedTuple):
    """The topics of these regular expressions are to be found, as far as the client may see them."""

    group_id: str
    client: Client
    patterns: Sequence[str]
    image: TopicsImage


class TopicsFound(NamedTuple):
    """The command that brings them: names by pattern. None when that was not possible."""

    wanted: TopicsWanted
    topics: Mapping[str, Sequence[str]] | None


class Helpers(NamedTuple):
    """What does such work elsewhere, and brings the result as a command. The core never calls them: like what takes a
    response, they stand in its output.
    """

    compute: Callable[[AssignmentWanted], object]
    search: Callable[[TopicsWanted], object]
