"""Members of both protocols, as correct clients are. Each knows what it owns, gives up what it must before it reports
that, and takes its assignment. The checkers compare what clients own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.assignors.subscription import assignment_bytes
from muster.protocol.consumer import decode_assignment, decode_subscription, encode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from muster.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.simulation.actor import Actor, Script
from muster.simulation.consumer import Consumer, Step, rows_of
from tests.simulation.consumers.scenario import ASSIGNORS, BEAT_MS, PATTERNS, REBALANCES_MS, SESSION_MS, SUBSCRIPTIONS

NOT_READY: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
RETRY_MS: Final = 100
Partition = tuple[str, int]


class Native(Actor):
    """A consumer of KIP-848. `instance` makes it a static member."""

    def __init__(self, world: Any, name: str, group_id: str, instance: str | None) -> None:
        super().__init__(world, name)
        random = world.random
        self.group_id, self.instance = group_id, instance
        self.member_id, self.epoch = f"{name}-{int(random() * 10**9):09}", 0
        self.rebalance_ms = REBALANCES_MS[int(random() * len(REBALANCES_MS))]
        self.pattern = PATTERNS[int(random() * len(PATTERNS))] if random() < 0.25 else None
        self.names = () if self.pattern else SUBSCRIPTIONS[int(random() * len(SUBSCRIPTIONS))]
        self.assignor = ASSIGNORS[int(random() * len(ASSIGNORS))]
        self.careless = random() < 0.25
        self.latency_ms = 3 if random() < 0.9 else 3_000
        self.owned: frozenset[Partition] = frozenset()
        self.says_all = True
        self.leaving = False

    def live(self) -> Script:
        """Send heartbeats, follow the target, commit; for ever."""
        while True:
            response = yield self.heartbeat()
            if response is None:
                self.says_all = True  # nobody knows whether the coordinator got it
                continue
            error = response.error_code
            if not error:
                yield from self.follow(response)
            elif error in NOT_READY:
                yield RETRY_MS
            elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                self.rejoin()
                yield RETRY_MS
            elif error == ErrorCode.UNRELEASED_INSTANCE_ID or (
                error == ErrorCode.GROUP_ID_NOT_FOUND and (self.epoch or self.world.random() < 0.5)
            ):
                self.rejoin()
                yield 1_000
            else:
                self.owned = frozenset()
                return  # fenced by its successor, or refused

    def rejoin(self) -> None:
        """Begin again: it is no member any more, owns nothing, and sends all fields."""
        self.owned, self.epoch, self.says_all = frozenset(), 0, True

    def follow(self, response: Any) -> Script:
        """Take the assignment of the answer, after the client has given up the rest."""
        world = self.world
        heard, self.epoch = self.epoch, response.member_epoch
        if heard and self.epoch < heard:
            world.watch.fail(self.group_id, f"{self.name} got epoch {self.epoch} after {heard}")
        self.says_all = False
        if response.assignment is None:
            yield from self.work()
            return
        by_id = world.names
        reported = frozenset(
            (by_id[row.topic_id], partition)
            for row in response.assignment.topic_partitions
            for partition in row.partitions
        )
        if self.owned - reported:
            ms = 1 + int(world.random() * 300)
            if self.careless and not world.calm and world.random() < 0.2:
                ms = int(world.random() * 2 * self.rebalance_ms)
            end_ms = world.ms + ms
            while world.ms < end_ms:  # it sends heartbeats while its application is busy
                yield min(BEAT_MS, end_ms - world.ms)
                if world.ms < end_ms:
                    again = yield self.heartbeat()
                    if again is not None and again.error_code:
                        if again.error_code not in NOT_READY:
                            self.rejoin()
                            return
                    elif again is not None:
                        self.epoch = again.member_epoch
                        if again.assignment is not None:
                            reported = frozenset(
                                (by_id[row.topic_id], partition)
                                for row in again.assignment.topic_partitions
                                for partition in row.partitions
                            )
        is_new, self.owned = self.owned != reported, reported
        self.says_all = world.random() < 0.1
        if not is_new:
            yield from self.work()

    def work(self) -> Script:
        """Work between two heartbeats."""
        world, random = self.world, self.world.random
        if self.owned and not world.calm and random() < 0.2:
            topic, partition = min(self.owned)
            yield commit_of(self, rows_of({topic: {partition: int(random() * 1_000)}}))
        if self.careless and not world.calm and random() < 0.03:
            yield int(2 * SESSION_MS * random())
        yield int(BEAT_MS * (0.7 + 0.5 * random()))

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat."""
        full = self.says_all or not self.epoch
        ids = self.world.ids
        rows: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            rows.setdefault(topic, []).append(partition)
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=self.rebalance_ms if full else -1,
            subscribed_topic_names=list(self.names) if full else None,
            subscribed_topic_regex=(self.pattern or "") if full else None,
            server_assignor=self.assignor if full else None,
            topic_partitions=[
                ConsumerGroupHeartbeatRequestTopicPartitions(ids[topic], its) for topic, its in rows.items()
            ],
        )

    def leave(self) -> Script:
        """Leave in order; a static member says that it will return."""
        self.owned = frozenset()
        away = self.instance is not None and self.world.random() < 0.6
        yield ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=-2 if away else -1, instance_id=self.instance
        )


def commit_of(one: Native, topics: Any) -> Any:
    """A commit in the member's epoch."""
    return OffsetCommitRequest(one.group_id, one.epoch, one.member_id, one.instance, -1, topics)


class Classic(Consumer):
    """A consumer of the classic protocol that gives up everything before it joins (eager). The leader assigns."""

    def __init__(self, world: Any, name: str, group_id: str, instance: str | None) -> None:
        random = world.random
        rebalance_ms = REBALANCES_MS[int(random() * len(REBALANCES_MS))]
        super().__init__(world, name, group_id, instance, session_ms=SESSION_MS, rebalance_ms=rebalance_ms)
        self.two_step = instance is None
        self.names = SUBSCRIPTIONS[int(random() * len(SUBSCRIPTIONS))]
        self.pattern = None
        self.careless = random() < 0.25
        self.latency_ms = 3 if random() < 0.9 else 3_000

    @property
    def owned(self) -> frozenset[Partition]:
        """The assignment of the consumer, until it joins again."""
        if not self.assigned:
            return frozenset()
        rows = decode_assignment(self.assigned)[1].assigned_partitions
        return frozenset((row.topic, partition) for row in rows for partition in row.partitions)

    def offers(self) -> list[JoinGroupRequestProtocol]:
        said = encode_subscription(ConsumerProtocolSubscription(list(self.names), None, []), 1)
        return [JoinGroupRequestProtocol("range", said)]

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        """Give each partition to one of its subscribers."""
        wants = {one.member_id: set(decode_subscription(one.metadata)[1].topics) for one in joined.members}
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in wants}
        for topic, count in sorted(self.world.counts.items()):
            takers = [member_id for member_id, names in wants.items() if topic in names]
            for partition in range(count if takers else 0):
                shares[takers[partition % len(takers)]].setdefault(topic, []).append(partition)
        return {member_id: assignment_bytes(share) for member_id, share in shares.items()}

    def sync(self, joined: JoinGroupResponse) -> Step:
        if self.careless and not self.world.calm and self.world.random() < 0.1:
            yield int(self.world.random() * self.rebalance_ms)
        return (yield from super().sync(joined))

    def work(self) -> Step:
        world, random = self.world, self.world.random
        while True:
            yield int(BEAT_MS * (0.7 + 0.5 * random()))
            if self.careless and not world.calm and random() < 0.03:
                yield int(2 * SESSION_MS * random())
            response = yield self.heartbeat()
            error = 0 if response is None else response.error_code
            if not error:
                if self.owned and not world.calm and random() < 0.1:
                    topic, partition = min(self.owned)
                    yield self.commit_of(rows_of({topic: {partition: int(random() * 1_000)}}))
                continue
            if error == ErrorCode.REBALANCE_IN_PROGRESS:
                return False
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
                self.assigned = None
                self.react_to(error)
                return error == ErrorCode.FENCED_INSTANCE_ID
            yield RETRY_MS

    def go(self) -> Script:
        """Leave in order; a static member just stops, and will return."""
        self.assigned = None
        if self.instance is None:
            yield self.leave("done")
        yield 1
