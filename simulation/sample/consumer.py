"""One consumer process of a sample, which behaves as real clients do.

It fetches committed offsets, works, and leaves. It commits from time to time, and before it gives partitions up. It
sends only the heartbeats that matter. They are frequent enough for its session. While the coordinator waits for the
members, it sends one every 3 s. Other heartbeats would only move the deadline of its session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, Protocol

from muster.assignors.assignor import RebalanceProtocol, Topic
from muster.assignors.builtin import CLIENT_ASSIGNORS
from muster.assignors.subscription import assignments_bytes, member_of
from muster.protocol.consumer import decode_assignment, encode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from muster.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequestTopic
from muster.simulation.actor import Script
from muster.simulation.consumer import Consumer, Joining, Offsets, Step, fetch_of, leave_of, offsets_of, rows_of
from muster.simulation.sample.work import Owned, Work
from muster.simulation.sample.world import World

HEARTBEAT_MS: Final = 3_000
REBALANCE_MS: Final = 300_000
POLL_MS: Final = 100
"""The longest time before a process reacts to its coordinator."""

GONE, CALLED, JOINING, STABLE = "gone", "called", "joining", "stable"
"""The states of a process. In CALLED it has to join again, and has not done so yet."""


class Plan(NamedTuple):
    """The facts about a group that are decided at the start."""

    group_id: str
    number: int
    story: str
    about: str
    topics: tuple[str, ...]
    strategy: str
    """The name of the assignment strategy; "" for a group whose members are no consumers."""
    members: int
    session_timeout_ms: int
    commit_interval_ms: int


class Team(Protocol):
    """The group of a consumer, as far as the consumer uses it. See `group.Group`."""

    plan: Plan
    world: World
    random: Random

    def check_rebalance(self) -> None:
        """Check whether the expected rebalance has happened."""

    def expect_another(self, consumer: SampleConsumer) -> None:
        """The consumer gives partitions up, and joins again."""

    def refused(self, consumer: SampleConsumer, error: int) -> None:
        """A commit of the consumer was refused."""


class SampleConsumer(Consumer):
    """A consumer process. `paused`: it does nothing, and sends no heartbeat, but its connection is open."""

    retry_ms = 0

    def __init__(self, group: Team, number: int, instance: str | None = None) -> None:
        """`number`: the number of the process in its group, from 1. It makes the client id and the host."""
        plan = group.plan
        super().__init__(
            group.world, f"{plan.group_id}-{number}", plan.group_id, instance, session_ms=plan.session_timeout_ms,
            rebalance_ms=REBALANCE_MS, host=f"/10.{plan.number >> 8}.{plan.number & 255}.{number}",
        )  # fmt: skip
        # round trips have different lengths, so that two answers of a group never arrive at the same time
        self.latency_ms = 1 + number % 5
        self.group = group
        self.topics = list(plan.topics)
        self.state = GONE
        self.paused = False
        self.commits = True
        self.stuck = False
        """Whether the process continues to commit, but reads nothing."""
        self.slow_ms = POLL_MS
        """The time until the process calls its client library again when the group rebalances."""
        self.owned: Owned = {}
        self.last_share: Owned | None = None
        """The last assignment of the process, which sticky strategies remember."""
        self.position: Work | None = None
        self.refused = 0
        """The error of the last commit that was refused."""
        self._runs = 0
        self._strategies = [CLIENT_ASSIGNORS[plan.strategy]] if plan.strategy else []
        self._phase_ms = group.random.randrange(HEARTBEAT_MS)

    def who(self) -> dict[str, str | None]:
        return {"client_id": self.client.client_id, "host": self.client.host, "instance": self.instance}

    # ---- starting and stopping

    def launch(self) -> None:
        self.forget()
        self.paused = False
        self._runs += 1
        self.again(self.live())
        first_ms = self.group.random.randrange(1, self.group.plan.commit_interval_ms + 1)
        self.world.later(first_ms, self._tick, self._runs)

    def stop(self, reason: str = "the consumer is being closed") -> None:
        """Stop in good order: commit, and leave. A static member does not leave, because it will return."""
        if self.state == STABLE:
            self.commit()
        leaving, joined = self.leave(reason), self.state != GONE
        self._end()
        if joined and self.instance is None:
            self._say(leaving)

    def remove(self, reason: str) -> None:
        self._say(leave_of(self.group_id, "", self.instance, reason))

    def crash(self) -> None:
        self.beat()
        self._end()

    def pause(self) -> None:
        """Stop all activity right after a heartbeat, as in a long garbage collection."""
        self.beat()
        self.paused = True

    def wake(self) -> None:
        self.paused = False
        self.commit()

    def give_up_polling(self) -> None:
        """Leave the group, because the application has not polled for max.poll.interval.ms."""
        leaving = self.leave("consumer poll timeout has expired.")
        self.kill()
        self.forget()
        self.state = GONE
        self._say(leaving)

    def come_back(self, reason: str) -> None:
        self.reason = reason
        self.start()

    def rejoin(self, reason: str | None = None) -> None:
        """Join again as a member, after giving partitions up."""
        if self.state == STABLE:
            if not self.is_cooperative:
                self.commit()
                self.owned = {}
                self.position = None
            self.again(self._come_round(reason))

    def _come_round(self, reason: str | None) -> Script:
        self.state = CALLED
        yield self.slow_ms
        self.reason = reason
        yield from self.live()

    def prefer(self, name: str) -> None:
        """Offer another assignment strategy first, from the next start on."""
        wanted = CLIENT_ASSIGNORS[name]
        self._strategies = [wanted, *(one for one in self._strategies if one is not wanted)]

    @property
    def is_cooperative(self) -> bool:
        return bool(self._strategies) and self._strategies[0].protocols[0] is RebalanceProtocol.COOPERATIVE

    def forget(self) -> None:
        super().forget()
        self.owned = {}
        self.last_share = self.position = None

    def _end(self) -> None:
        self.kill()
        self.forget()
        self._runs += 1
        self.state = GONE
        self.paused = False

    # ---- joining

    def live(self) -> Script:
        yield from super().live()
        self._end()  # the consumer was fenced, or the group has another protocol type: it gives up

    def join(self) -> Joining:
        self.state = JOINING
        joined = yield from super().join()
        self.reason = None
        return joined

    def offers(self) -> list[JoinGroupRequestProtocol]:
        cooperative = self.is_cooperative
        topics = sorted(self.topics)
        owned = [ConsumerProtocolSubscriptionTopicPartition(topic, list(one)) for topic, one in self.owned.items()]
        generation = self.generation if cooperative else -1
        offered = []
        for strategy in self._strategies:
            user_data = strategy.user_data(self.last_share, self.generation)
            subscription = ConsumerProtocolSubscription(topics, user_data, owned if cooperative else (), generation)
            offered.append(JoinGroupRequestProtocol(strategy.name, encode_subscription(subscription)))
        return offered

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        strategy = CLIENT_ASSIGNORS[joined.protocol_name or ""]
        members = [member_of(one.member_id, one.metadata, one.group_instance_id) for one in joined.members]
        names = sorted({topic for member in members for topic in member.topics})
        topics = {name: Topic(count) for name, count in self.group.world.partition_counts(names).items()}
        return assignments_bytes(strategy.assign(members, topics))

    def work(self) -> Step:
        """Work with the assignment. Timers commit and send heartbeats; the script waits until an event ends this."""
        self.state = STABLE
        before, self.owned = self.owned, self.read_share(self.assigned or b"")
        self.last_share = self.owned
        self._find_position()
        lost = any(set(partitions) - set(self.owned.get(topic, ())) for topic, partitions in before.items())
        if lost and self.is_cooperative:
            self.group.expect_another(self)
            self.state = CALLED
            yield self.slow_ms
            self.reason = "need to revoke partitions and re-join"
            return False
        # meanwhile another rebalance may have begun
        self.expect_beat()
        self.group.check_rebalance()
        yield None
        return True

    def read_share(self, share: bytes) -> Owned:
        if not share:
            return {}
        return {one.topic: one.partitions for one in decode_assignment(share)[1].assigned_partitions}

    def _find_position(self) -> None:
        self.position = None
        if self.owned:
            world = self.group.world
            committed = offsets_of(world.ask(self.group_id, fetch_of(self.group_id, self.owned), self.client))
            self.position = Work(world, self.owned, committed)

    # ---- working

    def expect_beat(self) -> None:
        world, turn = self.world, self.turn
        wait_ms = (self._phase_ms - world.ms) % HEARTBEAT_MS
        world.later(wait_ms, lambda _: self.beat() if turn == self.turn else None)

    def beat(self) -> None:
        """Send a heartbeat, and react to the answer."""
        if self.state not in (STABLE, CALLED) or self.paused:
            return
        error = self.group.world.beat(self.heartbeat(), self.client).error_code
        if error and self.state == STABLE:
            self.react_to(error)

    def react_to(self, error: int) -> None:
        if self.state != STABLE:
            super().react_to(error)
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
            self.again(self.live())
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self._end()
        else:
            self.rejoin()

    def _tick(self, run: int) -> None:
        if run != self._runs:
            return
        self.world.later(self.group.plan.commit_interval_ms, self._tick, run)
        if self.state == STABLE and self.commits and not self.paused:
            self.commit()

    def commit(self) -> None:
        if self.position is None or not self.commits:
            return
        if self.stuck:
            self.position.hold()
        else:
            self.position.move()
        self._send_commit(self.position.topics)

    def rewind(self, records: int) -> dict[str, dict[int, list[int]]]:
        """Commit, seek back by `records` in each partition, commit again. Returns [from, to] by topic and partition."""
        self.commit()
        if self.position is None:
            return {}
        moved = self.position.rewind(records)
        self._send_commit(self.position.topics)
        return moved

    def commit_these(self, offsets: Offsets) -> None:
        """Commit as a member. The partitions may belong to other members."""
        self._send_commit(rows_of(offsets))

    def _send_commit(self, topics: Sequence[OffsetCommitRequestTopic]) -> None:
        world = self.group.world
        response = world.ask(self.group_id, self.commit_of(list(topics)), self.client)
        error = response.topics[0].partitions[0].error_code
        if not error:
            world.records += sum(len(topic.partitions) for topic in response.topics)
            return
        self.refused = error
        self.group.refused(self, error)
        if self.state == STABLE and error != ErrorCode.REBALANCE_IN_PROGRESS:
            self.turn += 1  # the process waits for no other event
            turn = self.turn
            world.later(1, lambda _: self.react_to(error) if turn == self.turn else None)

    def _say(self, request: LeaveGroupRequest) -> None:
        world = self.group.world
        world.submit(
            self.group_id, request, lambda _: world.later(1, lambda _: self.group.check_rebalance()), self.client
        )
