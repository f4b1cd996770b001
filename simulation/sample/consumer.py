"""One consumer process of a sample, as real clients behave: it joins in two steps, the leader assigns, everybody syncs,
fetches what was committed, works, commits from time to time and before it gives up partitions, and leaves.

Heartbeats are sent when they matter: often enough for the session, and on the process's own beat of 3 s while the
coordinator awaits its members. Those in between would change nothing but the time at which it was heard of last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from muster.assignors.assignor import RebalanceProtocol, Topic
from muster.assignors.builtin import CLIENT_ASSIGNORS
from muster.assignors.subscription import assignments_bytes, member_of
from muster.coordinator.core.interface import Client
from muster.protocol.consumer import decode_assignment, encode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from muster.simulation.sample.work import Offsets, Owned, Work

if TYPE_CHECKING:
    from muster.simulation.sample.group import Group

HEARTBEAT_MS: Final = 3_000
POLL_MS: Final = 100
"""How long a process takes at most until it does what it was told."""
NO_ID: Final = bytes(16)

GONE, CALLED, JOINING, STABLE = "gone", "called", "joining", "stable"
"""Called: it is to join again, and has not got round to it."""


class Consumer:
    """One process. `paused`: it does nothing at all, not even heartbeat, but its connection is there."""

    protocol_type = "consumer"

    def __init__(self, group: Group, number: int, instance: str | None = None) -> None:
        """`number`: in its group, from 1; it makes the client id and the host."""
        self.group = group
        self.number = number
        self.instance = instance
        self.client = Client(f"{group.group_id}-{number}", f"/10.{group.number >> 8}.{group.number & 255}.{number}")
        self.topics = list(group.topics)
        self.state = GONE
        self.paused = False
        self.commits = True
        self.stuck = False
        """It goes on to commit, but reads nothing."""
        self.slow_ms = POLL_MS
        """How long it takes to come back to its client library when the group rebalances."""
        self.member_id = ""
        self.leader_id = ""
        """Who led its generation when it joined."""
        self.generation = -1
        self.owned: Owned = {}
        self.last_share: Owned | None = None
        """What it was assigned last, as sticky strategies remember it."""
        self.work: Work | None = None
        self.refused = 0
        """The error of the last commit that was refused."""
        self._turn = 0
        self._runs = 0
        self._beat: HeartbeatRequest | None = None
        self._strategies = [CLIENT_ASSIGNORS[group.strategy]] if group.strategy else []
        self._phase_ms = group.random.randrange(HEARTBEAT_MS)

    def who(self) -> dict[str, str | None]:
        """For the truth."""
        return {"client_id": self.client.client_id, "host": self.client.host, "instance": self.instance}

    # ---- coming and going

    def start(self, reason: str | None = None) -> None:
        """The process starts, knowing nothing of an earlier life."""
        self._forget()
        self.paused = False
        self._runs += 1
        self._ask_in(reason)
        run = self._runs
        first_ms = self.group.random.randrange(1, self.group.commit_interval_ms + 1)
        self.group.world.later(first_ms, lambda: self._tick(run))

    def stop(self, reason: str = "the consumer is being closed") -> None:
        """It ends in good order: it commits, and leaves, unless it is a static one, which is to be back."""
        if self.state == STABLE:
            self.commit()
        member_id, joined = self.member_id, self.state != GONE
        self._end()
        if joined and self.instance is None:
            request = LeaveGroupRequest(self.group.group_id, "", [MemberIdentity(member_id, None, reason)])
            self._tell(request)

    def remove(self, reason: str) -> None:
        """An administrator takes a static member out that has gone."""
        self._tell(LeaveGroupRequest(self.group.group_id, "", [MemberIdentity("", self.instance, reason)]))

    def crash(self) -> None:
        """It is gone, right after a heartbeat, without a word."""
        self.beat()
        self._end()

    def pause(self) -> None:
        """It stands still (a long garbage collection, a machine that is suspended), right after a heartbeat."""
        self.beat()
        self.paused = True

    def wake(self) -> None:
        """It goes on, and the first thing it does is to commit."""
        self.paused = False
        self.commit()

    def give_up_polling(self) -> None:
        """Its application has not polled for max.poll.interval.ms: the library leaves by itself."""
        member_id = self.member_id
        self._forget()
        self.state = GONE
        reason = "consumer poll timeout has expired."
        self._tell(LeaveGroupRequest(self.group.group_id, "", [MemberIdentity(member_id, None, reason)]))

    def come_back(self, reason: str) -> None:
        """Its application polls again."""
        self._ask_in(reason)

    def rejoin(self, reason: str | None = None) -> None:
        """Join again, as a member: after a revocation, unless only what is lost is to be given up."""
        if self.state != STABLE:
            return
        if not self.is_cooperative:
            self.commit()
            if self.state != STABLE:  # the commit has shown that it is no member any more
                return
            self.owned = {}
            self.work = None
        self.state = CALLED
        self._turn += 1
        turn = self._turn
        self.group.world.later(self.slow_ms, lambda: self._ask_in(reason) if turn == self._turn else None)

    def prefer(self, name: str) -> None:
        """From its next start on it offers another strategy of assignment first, and the ones before as well."""
        wanted = CLIENT_ASSIGNORS[name]
        self._strategies = [wanted, *(one for one in self._strategies if one is not wanted)]

    @property
    def is_cooperative(self) -> bool:
        """It keeps its partitions while it joins."""
        return bool(self._strategies) and self._strategies[0].protocols[0] is RebalanceProtocol.COOPERATIVE

    def _forget(self) -> None:
        self._turn += 1
        self.member_id, self.generation, self.owned = "", -1, {}
        self.last_share = self.work = self._beat = None

    def _end(self) -> None:
        self._forget()
        self._runs += 1
        self.state = GONE
        self.paused = False

    # ---- joining

    def _ask_in(self, reason: str | None = None) -> None:
        self.state = JOINING
        self._join(reason)

    def _join(self, reason: str | None) -> None:
        group = self.group
        request = JoinGroupRequest(
            group.group_id,
            group.session_timeout_ms,
            group.rebalance_timeout_ms,
            self.member_id,
            self.instance,
            self.protocol_type,
            self.offers(),
            reason,
        )
        self._send(request, lambda response: self._joined(response, reason))

    def offers(self) -> list[JoinGroupRequestProtocol]:
        """What it offers, and what it says of itself."""
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

    def _joined(self, response: Any, reason: str | None) -> None:
        error = response.error_code
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._join(reason)
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
            self._join(reason)
        elif error:  # fenced, or a group of others: no hope
            self._end()
        else:
            self.member_id, self.leader_id = response.member_id, response.leader
            self.generation = response.generation_id
            self._sync(response)

    def _sync(self, joined: JoinGroupResponse) -> None:
        rows: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            shares = self.assign(joined)
            rows = [SyncGroupRequestAssignment(member_id, share) for member_id, share in shares.items()]
        request = SyncGroupRequest(
            self.group.group_id,
            self.generation,
            self.member_id,
            self.instance,
            joined.protocol_type,
            joined.protocol_name,
            rows,
        )
        self._send(request, self._synced)

    def assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """As the leader: everybody's share."""
        strategy = CLIENT_ASSIGNORS[joined.protocol_name or ""]
        members = [member_of(one.member_id, one.metadata, one.group_instance_id) for one in joined.members]
        names = sorted({topic for member in members for topic in member.topics})
        topics = {name: Topic(count) for name, count in self.group.world.partition_counts(names).items()}
        return dict(assignments_bytes(strategy.assign(members, topics)))

    def _synced(self, response: Any) -> None:
        error = response.error_code
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
            self._ask_in()
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self._end()
        elif error:  # another rebalance is on
            self._join(None)
        else:
            self._take_share(response.assignment)

    def _take_share(self, share: bytes) -> None:
        self.state = STABLE
        group = self.group
        self._beat = HeartbeatRequest(group.group_id, self.generation, self.member_id, self.instance)
        before, self.owned = self.owned, self.read_share(share)
        self.last_share = self.owned
        self._start_work()
        # another rebalance may have begun meanwhile
        self.expect_beat()
        lost = any(set(partitions) - set(self.owned.get(topic, ())) for topic, partitions in before.items())
        if lost and self.is_cooperative:
            group.expect_another(self)
            self.rejoin("need to revoke partitions and re-join")
        else:
            group.look()

    def read_share(self, share: bytes) -> Owned:
        """The partitions of an assignment."""
        if not share:
            return {}
        return {one.topic: one.partitions for one in decode_assignment(share)[1].assigned_partitions}

    def _start_work(self) -> None:
        group = self.group
        if not self.owned:
            self.work = None
            return
        wanted = [OffsetFetchRequestTopics(topic, NO_ID, list(one)) for topic, one in self.owned.items()]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group.group_id, None, -1, wanted)])
        found: list[Any] = []
        group.world.send(group.group_id, request, found.append, self.client)
        committed = {
            topic.name: {one.partition_index: one.committed_offset for one in topic.partitions}
            for topic in found[0].groups[0].topics
        }
        self.work = Work(group.world, self.owned, committed)

    # ---- working

    def expect_beat(self) -> None:
        """Heartbeat at its own next beat."""
        world, turn = self.group.world, self._turn
        wait_ms = (self._phase_ms - world.clock.mono_ms()) % HEARTBEAT_MS
        world.later(wait_ms, lambda: self.beat() if turn == self._turn else None)

    def beat(self) -> None:
        """Heartbeat, and heed what is answered."""
        if self.state not in (STABLE, CALLED) or self.paused or self._beat is None:
            return
        response: Any = self.group.world.heartbeat(self._beat, self.client)
        error = response.error_code
        if error and self.state == STABLE:
            self._heed(error)

    def _heed(self, error: int) -> None:
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
            self._ask_in()
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self._end()
        else:
            self.rejoin()

    def _tick(self, run: int) -> None:
        if run != self._runs:
            return
        self.group.world.later(self.group.commit_interval_ms, lambda: self._tick(run))
        if self.state == STABLE and self.commits and not self.paused:
            self.commit()

    def commit(self) -> None:
        """Commit the present positions."""
        if self.work is None or not self.commits:
            return
        if self.stuck:
            self.work.hold()
        else:
            self.work.move()
        self._send_commit(self.work.topics)

    def rewind(self, records: int) -> dict[str, dict[int, list[int]]]:
        """Commit, seek back by so many records and commit again; [from, to] by topic and partition."""
        self.commit()
        if self.work is None:
            return {}
        moved = self.work.rewind(records)
        self._send_commit(self.work.topics)
        return moved

    def commit_these(self, offsets: Offsets) -> None:
        """Commit as the member that it is, whoever has the partitions."""
        topics = [
            OffsetCommitRequestTopic(
                topic, NO_ID, [OffsetCommitRequestPartition(one, at, -1, "") for one, at in rows.items()]
            )
            for topic, rows in offsets.items()
        ]
        self._send_commit(topics)

    def _send_commit(self, topics: list[OffsetCommitRequestTopic]) -> None:
        group_id = self.group.group_id
        request = OffsetCommitRequest(group_id, self.generation, self.member_id, self.instance, -1, topics)
        self.group.world.send(group_id, request, self._committed, self.client)

    def _committed(self, response: Any) -> None:
        error = response.topics[0].partitions[0].error_code
        if not error:
            self.group.world.records += sum(len(topic.partitions) for topic in response.topics)
            return
        self.refused = error
        self.group.refused(self, error)
        if self.state == STABLE and error != ErrorCode.REBALANCE_IN_PROGRESS:
            self._turn += 1
            turn = self._turn
            self.group.world.later(1, lambda: self._heed(error) if turn == self._turn else None)

    # ---- the wire

    def _send(self, request: Message, take: Callable[[Any], object]) -> None:
        turn, world = self._turn, self.group.world
        # one's own round trip: no two answers are there in the same moment
        latency_ms = 1 + self.number % 5

        def respond(response: Message) -> None:
            world.later(latency_ms, lambda: take(response) if turn == self._turn else None)

        world.send(self.group.group_id, request, respond, self.client)

    def _tell(self, request: Message) -> None:
        group = self.group
        group.world.send(group.group_id, request, lambda _: group.world.later(1, group.look), self.client)
