"""What the core is given for consumer groups, and what it wants done elsewhere, besides requests and replies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from muster.assignors.assignor import Assignment, Member, Topic
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.consumer.assignments import NOTHING, TargetAssignment
from muster.coordinator.groups.consumer.group import Resolved, topics_of
from muster.coordinator.groups.consumer.member import Description
from muster.coordinator.state_machine.interface import Client, Command, Respond
from muster.protocol.message import Message


class ConsumerHeartbeatCommand(Command):
    """A ConsumerGroupHeartbeat. `drawn_id`: a fresh UUID, for a member without an id; `pattern_error`: what is wrong
    with its regular expression, as RE2 says it; None when nothing is; `version`: of the request. `prepared`: what was
    read of a large classic group that it upgrades (`migration`); None: nothing was.
    """

    __slots__ = ("drawn_id", "pattern_error", "prepared", "version")

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
        self.prepared: Any = None
        self.drawn_id = drawn_id
        self.pattern_error = pattern_error
        self.version = version


class AssignmentWanted(Message):
    """A target assignment to be computed, by this assignor. It goes out as replies do, when all is durable.

    It has the group as it was, in values that do not change; what an assignor is given is made of them where it works
    (`members`, `topics`), for that takes longer than to take them down. `said`: the members in the order in which Kafka
    comes to them. `names`: of the topics that the group subscribes to. `targets`: those in force, by member id.
    `resolved`: the topics of patterns. `waiting`: the heartbeats that wait for it, of members that have no epoch yet.
    `is_general`: "uniform" is to go the way for differing subscriptions. `since_ms`: when the first targets were asked
    for at first (monotonic).
    """

    __slots__ = (
        "_members", "_topics", "assignor", "epoch", "group_id", "image", "is_general", "names", "resolved", "said",
        "since_ms", "targets", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        group_id: str,
        epoch: int,
        assignor: str,
        said: Sequence[tuple[str, Description]],
        names: Collection[str],
        image: TopicsImage,
        targets: Mapping[str, TargetAssignment],
        resolved: Mapping[str, Resolved],
        waiting: list[Command],
        since_ms: int,
        *,
        is_general: bool = False,
    ) -> None:
        self.since_ms = since_ms
        self.group_id = group_id
        self.epoch = epoch
        self.assignor = assignor
        self.said = said
        self.names = names
        self.image = image
        self.targets = targets
        self.resolved = resolved
        self.waiting = waiting
        self.is_general = is_general
        self._members: list[Member] | None = None
        self._topics: dict[str, Topic] | None = None

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics that there are, by name, for the assignor."""
        made = self._topics
        if made is None:
            by_name = self.image.by_name
            made = self._topics = {
                name: Topic(topic.partitions, (), topic.topic_id)
                for name in self.names
                if (topic := by_name.get(name)) is not None
            }
        return made

    @property
    def members(self) -> Sequence[Member]:
        """The members, for the assignor."""
        made = self._members
        if made is None:
            known: dict[tuple[int, str | None], tuple[str, ...]] = {}
            made = self._members = [self._member(member_id, said, known) for member_id, said in self.said]
        return made

    def _member(
        self, member_id: str, said: Description, known: dict[tuple[int, str | None], tuple[str, ...]]
    ) -> Member:
        """`known`: the names that were made of the same ones, and of the same pattern, for another member."""
        by_id, key = self.image.by_id, (id(said.topics), said.pattern)
        topics = known.get(key)
        if topics is None:
            topics = known[key] = tuple(topics_of(said, self.resolved))
        owned = {
            topic.name: partitions
            for topic_id, partitions in self.targets.get(member_id, NOTHING)
            if (topic := by_id.get(topic_id)) is not None
        }
        return Member(member_id, topics, owned, -1, said.instance_id, said.rack_id)

    def assign(self, assignor: Any) -> Assignment:
        """Have it computed by the assignor of that name."""
        way = assignor.assign_generally if self.is_general else assignor.assign
        made: Assignment = way(self.members, self.topics)
        return made


class AnswersDue(Message):
    """Members of a group that have waited for targets have no answer yet, so many of them: they are to get it in turns
    of the event loop of their own. It goes out as replies do, and is told to the core as it is.
    """

    __slots__ = ("count", "group_id", "waiting")

    def __init__(self, group_id: str, waiting: list[Command], count: int) -> None:
        self.group_id = group_id
        self.waiting = waiting
        self.count = count


class UpgradeWanted(Message):
    """A large classic group is to be read apart from the event loop before this heartbeat upgrades it: `read`, a pure
    function. It goes out as replies do.
    """

    __slots__ = ("command", "read")

    def __init__(self, command: ConsumerHeartbeatCommand, read: Callable[[], Any]) -> None:
        self.command = command
        self.read = read


class UpgradePrepared(NamedTuple):
    """What the core is told then: the heartbeat is to be answered now, with what was read."""

    command: ConsumerHeartbeatCommand
    prepared: Any


class AssignmentComputed(NamedTuple):
    """What the core is told then. `assignment` is None when the assignor failed; `prepared_target` holds what a thread
    has prepared of it (`prepared_target.PreparedTarget`).
    """

    wanted: AssignmentWanted
    assignment: Assignment | None
    prepared_target: Any = None


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
    later: Callable[[Message], object] | None = None
    """Tells the core the same in the next turn of the event loop; None: it is to do all at once."""
    read: Callable[[Message], object] | None = None
    """Reads a large classic group; None: it is read at once."""


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
