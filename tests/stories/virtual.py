"""The driver of stories over the core, in virtual time: no socket, no clock, no waiting.

Requests go through bytes and the codec in the version the story asks for, as they would over TCP, and so do replies and
records. The work of the handlers around the core (unknown topics, FindCoordinator) is done here, as shortly as
possible.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from muster.conform.player import kafka_codec as codec
from muster.conform.player import playing
from muster.conform.player.story import Action, Advance, Await, Drop, Reply, Send, Story
from muster.coordinator.api import context
from muster.coordinator.groups.classic.group import EMPTY, STABLE, ClassicGroup, classic_group
from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.consumer.commands import AssignmentComputed, ConsumerHeartbeatCommand, TopicsFound
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import bare_id
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.offsets.commit import CommitCommand
from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand, same_for_all
from muster.coordinator.groups.streams.group import StreamsGroup, TaskOwners
from muster.coordinator.groups.streams.heartbeat import HeartbeatCommand
from muster.coordinator.runtime.group_coordinator.background_work import helpers
from muster.coordinator.state_machine.interface import (
    Client,
    Command,
    Decoded,
    EndTransaction,
    Now,
    Record,
    TransactionalBatch,
)
from muster.coordinator.state_machine.output import Output
from muster.coordinator.system.jobs import OffloadedWork, at_once
from muster.coordinator.system.patterns import BadPattern, Pattern
from muster.protocol import frames
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from muster.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from muster.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from muster.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.messages.offset_delete import OffsetDeleteRequest
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from muster.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from muster.protocol.records import OFFSETS, encode_record
from tests.stories.transactions_beside import Asked, TransactionsBeside
from tests.support import hub
from tests.support.slots import slots_of

START = Now(1_000_000, 1_700_000_000_000)


class AtOnce:
    """Replaces `Slices`: background work of a shard is done at once."""

    # nobody disconnects
    def run(self, job: Generator[Any, Any, Any], done: Callable[[Any], object], owner: object) -> None:
        """Do the whole job."""
        step: Any = None
        try:
            while True:
                step = job.send(step.work() if isinstance(step, OffloadedWork) else None)
        except StopIteration as end:
            done(end.value)


def error_of(pattern: str) -> str | None:
    """RE2's error for a pattern; None when it has none."""
    try:
        Pattern(pattern)
    except BadPattern as error:
        return str(error.description)
    return None


def settings_of(story: Story) -> GroupSettings:
    """The core's settings from the story's `broker` line; names that the core does not have are left out."""
    own = {field.name: field.default for field in fields(GroupSettings)}
    named = {name.replace(".", "_"): value for name, value in story.broker.items()}
    found: dict[str, Any] = {
        name: int(text)
        if isinstance(own[name], int)
        else tuple(text.split(","))
        if isinstance(own[name], tuple)
        else text
        for name, text in named.items()
        if name in own
    }
    return GroupSettings(**found)


class Chance(NamedTuple):
    """The random values of a run: the suffix of its groups and own topics, the ids of its topics by name (in their
    order), and the ids that the coordinator drew (by the number of the request of a member).
    """

    suffix: str = ""
    topic_ids: Mapping[str, list[uuid.UUID]] = MappingProxyType({})
    drawn: Mapping[int, str] = MappingProxyType({})


NO_CHANCE = Chance()


class VirtualDriver:
    """Plays one story on one core."""

    def __init__(self, story: Story, topics: TopicsImage | None = None, chance: Chance = NO_CHANCE) -> None:
        self.story, self.chance = story, chance
        self.now = START
        self.created: dict[str, int] = {}
        self.joins = 0
        tail = chance.suffix.replace("~", "-")
        counts = {**story.topics, **{name + tail: count for name, count in story.own_topics.items() if count}}
        named = {name: TopicImage(name, self.new_topic_id(name), count) for name, count in counts.items()}
        self.topics = topics or TopicsImage(named, 1)
        self.core = GroupCore(settings_of(story), self.topics, helpers=helpers(AtOnce(), self._tell))
        self.core.loaded(self.now)
        self.transactions = TransactionsBeside(self._end, lambda: self.now)
        self.log: list[list[Record] | TransactionalBatch | EndTransaction] = []
        self.written: list[Record] = []
        """All records except markers, also those of transactions."""
        self.replies: list[Reply] = []
        self.ids = 0
        self.drawn_id: str | None = None
        """The next random id, if the test sets it."""
        self.searches = 0
        """How often topics were searched."""
        self.lives: dict[str, int] = {}

    def run(self) -> str:
        """The story's text as it went."""
        tail = self.chance.suffix.replace("~", "-")
        ids = {name.removesuffix(tail): uuid.UUID(bytes=one.topic_id) for name, one in self.topics.by_name.items()}
        play = playing.play(self.story, self.chance.suffix, ids)
        answer: list[Reply] | None = None
        try:
            while True:
                answer = self.act(play.send(answer))
        except StopIteration as end:
            text: str = end.value
            return text

    def act(self, action: Action) -> list[Reply]:
        """Perform one action; its replies."""
        if isinstance(action, Send):
            self.send(action)
            self.pass_time(self.now.mono_ms, lambda: False)
        elif isinstance(action, Advance):
            self.pass_time(self.now.mono_ms + action.ms, lambda: False)
        elif isinstance(action, Await):
            actor = action.actor
            self.pass_time(
                self.now.mono_ms + action.high + 300, lambda: any(reply.actor == actor for reply in self.replies)
            )
        elif isinstance(action, Drop):
            self.lives[action.actor] = self.lives.get(action.actor, 0) + 1
            return []
        replies, self.replies = self.replies, []
        return replies

    def send(self, action: Send) -> None:
        """Hand a request to the core, through bytes."""
        frame = codec.encode_request(action.api, action.version, 7, action.client_id, action.body)
        header, start = frames.decode_request_header(frame, 0, len(frame))
        request = hub.decode_request(header, frame, start, len(frame))
        sent_ms = self.now.mono_ms
        life = self.lives.get(action.actor, 0)

        def respond(response: Message) -> None:
            if life != self.lives.get(action.actor, 0):
                return  # the reply is for a process that has died
            raw = b"".join(hub.encode_response(header, response))
            _, body = codec.decode_response(action.api, action.version, raw[4:])
            took_ms = self.now.mono_ms - sent_ms
            self.replies.append(Reply(action.actor, action.api, action.version, action.body, body, took_ms))

        client = Client(action.client_id or "", "/127.0.0.1")
        if isinstance(request, CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest):
            self._administer(request, respond)
            return
        if action.api in ("JoinGroup", "ConsumerGroupHeartbeat"):
            self.drawn_id = self.drawn_id or self.chance.drawn.get(self.joins)
            self.joins += 1
        handled = self._before(request, action.version, respond)
        if handled is None:
            return
        if isinstance(request, Asked):
            self.transactions.ask(request, action.version, handled, client)
            return
        command = Command(request, handled, client)
        if isinstance(request, TxnOffsetCommitRequest):
            refusal = self.transactions.refusal(request, action.version, client)
            if refusal:
                handled(same_for_all(request, refusal))
                return
            output = self.core.handle(TxnCommitCommand(request, handled, client, 0, action.version >= 6), self.now)
            self.written += output.records
            rows = [as_read(record) for record in output.records]
            if rows:
                self.log.append(TransactionalBatch(request.producer_id, request.producer_epoch, self.now.wall_ms, rows))
            self.answer(output)
            return
        if action.api == "JoinGroup":
            command = JoinCommand(
                request,
                handled,
                client,
                self._draw(),
                context.join_requires_known_member_id(action.version),
                context.join_supports_skip_assignment(action.version),
            )
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            pattern = request.subscribed_topic_regex
            command = ConsumerHeartbeatCommand(
                request,
                handled,
                client,
                drawn_id=bare_id(self._draw()),
                pattern_error=error_of(pattern) if pattern else None,
                version=action.version,
            )
        if isinstance(request, OffsetCommitRequest):
            command = CommitCommand(request, handled, client, action.version)
        if isinstance(request, StreamsGroupHeartbeatRequest):
            beat = HeartbeatCommand(request, handled, client, action.version)
            self.take(self.core.handle(beat, self.now))
            self._create({name: one.partitions for name, one in beat.missing.items()})
            return
        self.take(self.core.handle(command, self.now))

    def _draw(self) -> str:
        self.ids += 1
        drawn, self.drawn_id = self.drawn_id, None
        return drawn or str(uuid.UUID(int=self.ids))

    def _tell(self, result: AssignmentComputed | TopicsFound) -> None:
        """Give the core the result of background work."""
        self.searches += isinstance(result, TopicsFound)
        self.take(self.core.handle(result, self.now))

    def new_topic_id(self, name: str) -> bytes:
        """The id of a topic that is created: as on the server of the run."""
        number = self.created[name] = self.created.get(name, -1) + 1
        known = self.chance.topic_ids.get(name, [])
        return (known[number] if number < len(known) else _topic_id(f"{name}/{number}" if number else name)).bytes

    def _administer(self, request: Message, respond: Callable[[Message], None]) -> None:
        """Create, delete and grow topics."""
        by_name = dict(self.topics.by_name)
        response: Message
        if isinstance(request, CreateTopicsRequest):
            for new in request.topics:
                by_name[new.name] = TopicImage(new.name, self.new_topic_id(new.name), new.num_partitions)
            response = CreateTopicsResponse(
                topics=[CreatableTopicResult(one.name, by_name[one.name].topic_id) for one in request.topics]
            )
        elif isinstance(request, DeleteTopicsRequest):
            for old in request.topics:
                del by_name[old.name or ""]
            response = DeleteTopicsResponse(responses=[DeletableTopicResult(one.name) for one in request.topics])
        else:
            assert isinstance(request, CreatePartitionsRequest)
            for grown in request.topics:
                by_name[grown.name] = TopicImage(grown.name, by_name[grown.name].topic_id, grown.count)
            rows = [CreatePartitionsTopicResult(one.name) for one in request.topics]
            response = CreatePartitionsResponse(results=rows)
        self.change_topics(TopicsImage(by_name, self.topics.version + 1))
        respond(response)

    def _create(self, counts: Mapping[str, int]) -> None:
        """Create the internal topics of an application."""
        made = {name: TopicImage(name, self.new_topic_id(name), count) for name, count in counts.items()}
        if made:
            self.change_topics(TopicsImage({**self.topics.by_name, **made}, self.topics.version + 1))

    def change_topics(self, topics: TopicsImage) -> None:
        """Set the present topics."""
        self.topics = topics
        self.take(self.core.handle(TopicsChanged(topics), self.now))

    def take(self, output: Output) -> None:
        """Do what the shell does with an output: keep the records, send the replies."""
        self.log.append(list(output.records))
        self.written += output.records
        self.answer(output)

    def answer(self, output: Output) -> None:
        """Send the replies."""
        for respond, response in output.replies:
            respond(response)

    def _end(self, end: EndTransaction) -> None:
        """Apply a marker."""
        self.log.append(end)
        at_once(self.core.end_transaction(end, self.now))

    def pass_time(self, until_ms: int, done: Callable[[], bool]) -> None:
        """Step from deadline to deadline until then, or until it is done."""
        while not done():
            due_ms = self.core.next_deadline_ms()
            if due_ms is None or due_ms > until_ms:
                self.move_to(until_ms)
                return
            self.move_to(due_ms)
            self.take(self.core.advance(self.now))

    def move_to(self, mono_ms: int) -> None:
        """Set the time to `mono_ms`, unless it is later already."""
        step = max(mono_ms - self.now.mono_ms, 0)
        self.now = Now(self.now.mono_ms + step, self.now.wall_ms + step)

    def replayed(self) -> GroupCore:
        """Another core, made of this one's records, through bytes."""
        core = GroupCore(settings_of(self.story), self.topics)
        for entry in self.log:
            if isinstance(entry, TransactionalBatch):
                core.replay_transactional(entry, self.now)
            elif isinstance(entry, EndTransaction):
                at_once(core.end_transaction(entry, self.now))
            else:
                core.replay([as_read(record) for record in entry], self.now)
        core.loaded(self.now)
        return core

    def _before(
        self, request: Message, version: int, respond: Callable[[Message], None]
    ) -> Callable[[Message], None] | None:
        """Do what a handler does before the core is asked: returns the function for the answer; None: it has
        answered.
        """
        if isinstance(request, FindCoordinatorRequest):
            rows = [Coordinator(key, 1, "127.0.0.1", 9092, 0, "") for key in request.coordinator_keys]
            respond(FindCoordinatorResponse(coordinators=rows))
            return None
        if (
            isinstance(request, SyncGroupRequest)
            and context.sync_names_protocol(version)
            and None in (request.protocol_type, request.protocol_name)
        ):
            respond(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return None
        if isinstance(request, OffsetFetchRequest):
            return self._with_ids(request, respond)
        if isinstance(request, DescribeGroupsRequest) and request.include_authorized_operations:
            return partial(_with_operations, respond, context.describe_knows_group_not_found(version))
        if isinstance(request, OffsetCommitRequest | OffsetDeleteRequest | TxnOffsetCommitRequest):
            return self._without_unknown_topics(request, respond)
        return respond

    def _with_ids(self, request: OffsetFetchRequest, respond: Callable[[Message], None]) -> Callable[[Message], None]:
        """Topics have names in requests and ids (v10) in answers."""
        unknown: dict[str, list[Any]] = {group.group_id: [] for group in request.groups}
        for group in request.groups:
            for topic in group.topics or []:
                known = self.topics.by_id.get(topic.topic_id)
                topic.name = topic.name if known is None else known.name
            unknown[group.group_id] = [topic for topic in group.topics or [] if not topic.name]
            if unknown[group.group_id]:
                group.topics = [topic for topic in group.topics or [] if topic.name]

        def answer(response: Any) -> None:
            for group in response.groups:
                for topic in group.topics:
                    known = self.topics.by_name.get(topic.name)
                    topic.topic_id = topic.topic_id if known is None else known.topic_id
                group.topics = [*group.topics, *map(_no_such_id, unknown.get(group.group_id, []))]
            respond(response)

        return answer

    def _without_unknown_topics(
        self,
        request: OffsetCommitRequest | OffsetDeleteRequest | TxnOffsetCommitRequest,
        respond: Callable[[Message], None],
    ) -> Callable[[Message], None] | None:
        api = type(request).__module__.rpartition(".")[2]
        module: Any = __import__(f"muster.protocol.messages.{api}", fromlist=["*"])
        prefix = type(request).__name__.removesuffix("Request")
        new_topic, new_row, new_response = (
            getattr(module, f"{prefix}Response{part}") for part in ("Topic", "Partition", "")
        )
        refused = []
        for topic in request.topics:
            known = self.topics.by_name.get(topic.name)
            code, ids = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ()
            if isinstance(topic, TxnOffsetCommitRequestTopic) and known is not None:
                topic.topic_id = known.topic_id
            if isinstance(request, OffsetCommitRequest):
                if known is None and not topic.name:
                    known, code = self.topics.by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
                topic.name, ids = topic.name if known is None else known.name, (topic.topic_id,)
            count = 0 if known is None else known.partitions
            bad = [one for one in topic.partitions if not 0 <= one.partition_index < count]
            topic.partitions = [one for one in topic.partitions if one not in bad]
            if bad:
                code = code if known is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                rows = [new_row(one.partition_index, code) for one in bad]
                refused.append(new_topic(topic.name, *ids, partitions=rows))
        request.topics = [topic for topic in request.topics if topic.partitions]
        if refused and not request.topics and not isinstance(request, OffsetDeleteRequest):
            respond(new_response(topics=refused))
            return None

        def merge(response: Any) -> None:
            if not getattr(response, "error_code", 0):
                response.topics = [*refused, *response.topics]
            respond(response)

        return merge


def as_read(record: Record) -> Decoded:
    """A record as it comes back from a log, through bytes."""
    key, value = encode_record(OFFSETS, record)
    record_type, key_message = OFFSETS.decode_key(key)
    return key_message, None if value is None else OFFSETS.decode_value(record_type, value)[1]


def _with_operations(respond: Callable[[Message], None], knows_not_found: bool, response: Message) -> None:
    """Without an authorizer everybody may do everything to a group, also to one that does not exist (if there is no
    error).
    """
    assert isinstance(response, DescribeGroupsResponse)
    for row in response.groups:
        if not (row.error_code and knows_not_found):
            row.authorized_operations = sum(1 << operation for operation in (3, 6, 8, 10, 11))
    respond(response)


def _no_such_id(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    rows = [
        OffsetFetchResponsePartitions(one, -1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID) for one in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics("", topic.topic_id, rows)


def _topic_id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def persisted(core: GroupCore, live: GroupCore) -> dict[str, object]:
    """The state that a core has in its log: all offsets, and those groups whose present state `live` has recorded.

    A join phase and a generation without an assignment are not persisted, as on Kafka. No record says when a group
    became Stable.
    """
    facts: dict[str, object] = {}
    for group_id, group in core.state.groups.items():
        facts[f"offsets of {group_id}"] = {
            (topic, partition): value
            for topic, partitions in core.state.offsets.topics(group_id).items()
            for partition, value in partitions.items()
        }
        if isinstance(group, ConsumerGroup):
            facts[group_id] = _consumer_group(group)
            continue
        if isinstance(group, StreamsGroup):
            facts[group_id] = _streams_group(group)
            continue
        now = classic_group(live.state, group_id)
        if not isinstance(group, ClassicGroup) or now is None or now.state not in (EMPTY, STABLE):
            continue
        facts[group_id] = (
            group.state,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader_id,
            group.state_since_ms if group.state == EMPTY and group.generation else None,
            group.static_ids,
            {one.member_id: _member(one, group.protocol_name) for one in group.members.values()},
        )
    return facts


def _streams_group(group: StreamsGroup) -> dict[str, object]:
    soft = {
        "computing", "configured", "delay", "endpoint_epoch", "hashed_topics", "hashed_version", "members", "offsets",
        "owners", "settling", "shutdown_by", "unready",
    }  # fmt: skip
    facts = {name: getattr(group, name) for name in slots_of(StreamsGroup) if name not in soft}
    members = {one.member_id: (one.description, one.position) for one in group.members.values()}
    owners = {kind: getattr(group.owners, kind) for kind in slots_of(TaskOwners)}
    return {**facts, "members": members, "owners": owners}


def _consumer_group(group: ConsumerGroup) -> dict[str, object]:
    soft = {
        "computing_epoch", "equal_targets", "existing", "failed_epoch", "hashed_topics", "hashed_version",
        "is_searching", "members", "names_version", "reconciliation", "waiting",
    }  # fmt: skip
    facts = {name: getattr(group, name) for name in slots_of(ConsumerGroup) if name not in soft}
    return {**facts, "members": {one.member_id: (one.description, one.position) for one in group.members.values()}}


def _member(member: Member, protocol_name: str | None) -> tuple[object, ...]:
    return (
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(protocol_name),
        member.assignment,
    )
