"""What the core is given for consumer groups, and what it wants done elsewhere, besides requests and replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.assignors.assignor import Assignment, Member, Topic
from muster.coordinator.core.interface import Client, Command, Respond
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.consumer.partitions import Share
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


class AssignmentWanted(Message):
    """A target assignment to be computed, by this assignor. It goes out as replies do, when all is durable.

    `waiting`: the heartbeats that wait for it, of members that have no epoch yet. `image_version`: of the topics.
    `is_general`: "uniform" is to go the way for differing subscriptions. `targets`: those in force, by member id, for
    what is worked out beside the assignment.
    """

    __slots__ = (
        "assignor",
        "epoch",
        "group_id",
        "image_version",
        "is_general",
        "members",
        "targets",
        "topics",
        "waiting",
    )

    def __init__(
        self,
        group_id: str,
        epoch: int,
        assignor: str,
        members: Sequence[Member],
        topics: Mapping[str, Topic],
        waiting: list[Command],
        image_version: int,
        *,
        is_general: bool = False,
    ) -> None:
        self.group_id = group_id
        self.image_version = image_version
        self.epoch = epoch
        self.assignor = assignor
        self.members = members
        self.topics = topics
        self.waiting = waiting
        self.is_general = is_general
        self.targets: Mapping[str, Share] = {}

    def assign(self, assignor: Any) -> Assignment:
        """Have it computed by the assignor of that name."""
        way = assignor.assign_generally if self.is_general else assignor.assign
        made: Assignment = way(self.members, self.topics)
        return made


class AssignmentComputed(NamedTuple):
    """What the core is told then. `assignment` is None when the assignor failed; `worked_out`: what follows from it, if
    somebody has seen to that (`worked_out.WorkedOut`).
    """

    wanted: AssignmentWanted
    assignment: Assignment | None
    worked_out: Any = None


class TopicsWanted(Message):
    """The topics of these regular expressions are to be found, as far as the client may see them. It goes out as
    replies do.
    """

    __slots__ = ("client", "group_id", "image", "patterns")

    def __init__(self, group_id: str, client: Client, patterns: Sequence[str], image: TopicsImage) -> None:
        self.group_id = group_id
        self.client = client
        self.patterns = patterns
        self.image = image


class TopicsFound(NamedTuple):
    """What the core is told then: names by pattern. None when that was not possible."""

    wanted: TopicsWanted
    topics: Mapping[str, Sequence[str]] | None


class Helpers(NamedTuple):
    """What does such work elsewhere, and tells the core the result. The core never calls them: like what takes a
    response, they stand in its output.
    """

    compute: Callable[[Message], object]
    search: Callable[[Message], object]


class Downgrade(NamedTuple):
    """How a consumer group becomes a classic one, when only classic members stay (`migration`)."""

    is_allowed: Callable[..., bool]
    """(step, group, those that go, how many come): whether it does."""
    after_leave: Callable[..., None]
    """(step, group, those that go): they leave; the others rebalance."""
    after_join: Callable[..., None]
    """(step, group, `Joined`): a classic member has taken the place of the last other one."""


class Joined(NamedTuple):
    """Who takes whose place, and the group as it was before: its epoch is the generation."""

    member_id: str
    replaced_id: str
    member_ids: Sequence[str]
    epoch: int
    is_stale: bool
    """The targets are older than the subscriptions."""
