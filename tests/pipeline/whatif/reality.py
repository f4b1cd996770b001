"""Real groups with which replays are compared. Consumers in virtual time on a core send heartbeats, are slow, crash,
pause, leave and return; the log is what a server would have written. This module shares no code with the replay.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from random import Random
from typing import Any

from muster.assignors.assignor import RebalanceProtocol, Topic
from muster.assignors.builtin import CLIENT_ASSIGNORS
from muster.assignors.subscription import assignments_bytes, member_of
from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.history.schema import plain_json, to_json
from muster.coordinator.state_machine.interface import Client, Command
from muster.coordinator.state_machine.output import Output
from muster.protocol.consumer import decode_assignment, decode_subscription, encode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.pipeline.whatif.virtual import Virtual

HEARTBEAT_MS = 3_000
GROUP = "g"


class Reality(Virtual):
    """One group, its coordinator and its topics. `events` and `records` are what a log would have of it."""

    def __init__(self, seed: int = 0, partitions: int = 8, delay_ms: int = 3_000) -> None:
        self.counts = {"t": partitions, "u": 3}
        super().__init__(seed, GroupSettings(group_initial_rebalance_delay_ms=delay_ms), self._image())
        self.events: list[dict[str, Any]] = []
        self.records: list[dict[str, Any]] = []

    def grow(self, topic: str, partitions: int) -> None:
        """A topic gets more partitions."""
        self.counts[topic] = partitions
        self._settle(self.core.handle(TopicsChanged(self._image()), self.now))

    def send(self, request: Message, client: Client, take: Callable[[Any], object]) -> None:
        """Send a request; `take` gets its answer."""
        if type(request) is JoinGroupRequest:
            drawn = str(self.random.getrandbits(64))
            command: Command = JoinCommand(request, take, client, drawn, True, True)
        else:
            command = Command(request, take, client)
        self._settle(self.core.handle(command, self.now))

    def refused(self, api: str, client: Client) -> None:
        """What the journal says of a request of a client that is no member."""
        facts = {"api": api, "error": "UNKNOWN_MEMBER_ID", "error_code": 25, "client_id": client.client_id,
                 "host": client.host, "instance": None, "count": 1}  # fmt: skip
        self.events.append(json.loads(plain_json("requests_refused", GROUP, self.ms, facts)))

    def _settle(self, output: Output) -> None:
        for event in output.events:
            if event.kind != "request_refused":
                self.events.append(json.loads(to_json(event, self.ms)))
        for record in output.records:
            if isinstance(record.key, GroupMetadataKey):
                assert record.value is None or isinstance(record.value, GroupMetadataValue)
                self.records.append(_row(record.value, self.ms))
        for respond, response in output.replies:
            respond(response)

    def _image(self) -> TopicsImage:
        return TopicsImage(
            {name: TopicImage(name, name.encode() * 16, count) for name, count in self.counts.items()}, 1
        )


def _row(value: GroupMetadataValue | None, ms: int) -> dict[str, Any]:
    """A record as the what-if reads it from the offsets log."""
    if value is None:
        return {"at_ms": ms, "is_tombstone": True, "members": None}
    members = [
        {
            "member_id": one.member_id,
            "instance_id": one.group_instance_id,
            "client_id": one.client_id,
            "host": one.client_host,
            "session_timeout_ms": one.session_timeout,
            "rebalance_timeout_ms": one.rebalance_timeout,
            "subscription": b64encode(one.subscription).decode(),
            "topics": list(decode_subscription(one.subscription)[1].topics),
            "assigned": [
                {"topic": topic, "partitions": list(numbers)} for topic, numbers in _owned(one.assignment).items()
            ],
        }
        for one in value.members
    ]
    return {
        "at_ms": ms,
        "is_tombstone": False,
        "generation": value.generation,
        "protocol_type": value.protocol_type,
        "protocol": value.protocol,
        "leader": value.leader,
        "state_timestamp_ms": value.current_state_timestamp,
        "members": members,
    }


def _owned(assignment: bytes) -> dict[str, list[int]]:
    if not assignment:
        return {}
    return {one.topic: list(one.partitions) for one in decode_assignment(assignment)[1].assigned_partitions}


class Consumer:
    """One process."""

    def __init__(
        self, world: Reality, name: str, strategy: str = "range", session_ms: int = 10_000, instance: str | None = None
    ) -> None:
        self.world, self.instance = world, instance
        self.client = Client(name, f"/{name}")
        self.assignor = CLIENT_ASSIGNORS[strategy]
        self.cooperative = self.assignor.protocols[0] is RebalanceProtocol.COOPERATIVE
        self.session_ms, self.rebalance_ms = session_ms, 60_000
        self.topics = ["t"]
        self.latency_ms = 1 + world.random.randrange(5)
        self.slow_ms = 0
        self.paused = self.gone = False
        self.asleep: list[Callable[[], object]] = []
        self._forget()
        self.turn = 0

    def _forget(self) -> None:
        self.member_id, self.generation = "", -1
        self.owned: dict[str, list[int]] = {}
        self.last: dict[str, list[int]] | None = None

    # ---- what happens to it

    def start(self) -> None:
        self.turn += 1
        self.gone = self.paused = False
        self._forget()
        self._join()

    def stop(self) -> None:
        """Stop in order."""
        member_id = self.member_id
        self.crash()
        if member_id and self.instance is None:
            self.world.send(
                LeaveGroupRequest(GROUP, "", [MemberIdentity(member_id, None, None)]), self.client, _nothing
            )

    def crash(self) -> None:
        self.turn += 1
        self.gone = True

    def pause(self) -> None:
        self.paused = True

    def wake(self) -> None:
        self.paused = False
        asleep, self.asleep = self.asleep, []
        for act in asleep:
            act()

    def subscribe(self, *topics: str) -> None:
        self.topics = list(topics)
        if self.cooperative:
            self.owned = {topic: rows for topic, rows in self.owned.items() if topic in topics}
        self.rejoin()

    def rejoin(self) -> None:
        """Join again, by itself or because the coordinator asked for it."""
        if self.gone or not self.member_id:
            return
        self.turn += 1
        if not self.cooperative:
            self.owned = {}
        self._later(self.slow_ms + 1, self._join)

    # ---- what it does

    def _later(self, ms: int, act: Callable[[], object]) -> None:
        turn = self.turn

        def go() -> None:
            if turn != self.turn or self.gone:
                return
            if self.paused:
                self.asleep.append(go)
            else:
                act()

        self.world.at(ms, go)

    def _send(self, request: Message, take: Callable[[Any], None]) -> None:
        turn = self.turn

        def answered(response: Any) -> None:
            def go() -> None:
                if turn == self.turn and not self.gone:
                    if self.paused:
                        self.asleep.append(go)
                    else:
                        take(response)

            self.world.at(self.latency_ms, go)

        self.world.send(request, self.client, answered)

    def _join(self) -> None:
        reported = [ConsumerProtocolSubscriptionTopicPartition(topic, rows) for topic, rows in self.owned.items()]
        said = ConsumerProtocolSubscription(
            self.topics,
            self.assignor.user_data(self.last, self.generation),
            reported if self.cooperative else (),
            self.generation if self.cooperative else -1,
        )
        offers = [JoinGroupRequestProtocol(self.assignor.name, encode_subscription(said))]
        request = JoinGroupRequest(
            GROUP, self.session_ms, self.rebalance_ms, self.member_id, self.instance, "consumer", offers
        )
        self._send(request, self._joined)

    def _joined(self, response: Any) -> None:
        error = response.error_code
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._join()
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._begin_anew("JoinGroup")
        elif error:
            self.crash()
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            rows = []
            if response.members and not response.skip_assignment:
                members = [member_of(one.member_id, one.metadata, one.group_instance_id) for one in response.members]
                topics = {name: Topic(count) for name, count in self.world.counts.items()}
                shares = assignments_bytes(self.assignor.assign(members, topics))
                rows = [SyncGroupRequestAssignment(member_id, share) for member_id, share in shares.items()]
            self._beat_later()
            request = SyncGroupRequest(GROUP, self.generation, self.member_id, self.instance, None, None, rows)
            self._send(request, self._synced)

    def _synced(self, response: Any) -> None:
        error = response.error_code
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._begin_anew("SyncGroup")
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
        elif error:
            self.rejoin()
        else:
            before, self.owned = self.owned, _owned(response.assignment)
            self.last = self.owned
            if self.cooperative and any(set(rows) - set(self.owned.get(topic, ())) for topic, rows in before.items()):
                self.rejoin()

    def _begin_anew(self, api: str) -> None:
        self.world.refused(api, self.client)
        last = None if self.cooperative else self.last
        self.turn += 1
        self._forget()
        self.last = last
        self._join()

    def _beat_later(self) -> None:
        self._later(HEARTBEAT_MS, self._beat)

    def _beat(self) -> None:
        request = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance)
        error = self.world.core.heartbeat(request, self.world.ms).error_code
        self._beat_later()
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._begin_anew("Heartbeat")
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
        elif error:
            self.rejoin()


def _nothing(_: object) -> None:
    """Ignore an answer."""


def random_reality(seed: int) -> Reality:
    """A few minutes with all kinds of events."""
    world = Reality(seed, delay_ms=Random(seed).choice((0, 3_000)))
    random = world.random
    strategy = random.choice(list(CLIENT_ASSIGNORS))
    static = random.random() < 0.3
    consumers = [
        Consumer(world, f"c{number}", strategy, random.choice((8_000, 15_000)), f"i{number}" if static else None)
        for number in range(random.randrange(2, 7))
    ]
    for one in consumers:
        world.at(random.randrange(4_000), one.start)
    for _ in range(random.randrange(4, 14)):
        one, act = random.choice(consumers), random.random()
        world.run(random.choice((50, 900, 4_000, 20_000, 40_000)))
        away_ms = random.choice((500, 3_000, 12_000, 30_000))
        if one.gone or one.paused:
            continue
        if act < 0.25:
            one.stop()
            world.at(away_ms, one.start)
        elif act < 0.4:
            one.crash()
            world.at(away_ms, one.start)
        elif act < 0.55:
            one.pause()
            world.at(away_ms, one.wake)
        elif act < 0.65:
            one.subscribe(*random.choice((("t",), ("u",), ("t", "u"))))
        elif act < 0.75:
            world.grow("t", world.counts["t"] + 2)
            one.rejoin()
        elif act < 0.85:
            one.slow_ms = random.choice((0, 2_000, 9_000))
        else:
            one.rejoin()
    world.run(120_000)
    return world
