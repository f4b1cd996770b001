"""Consumers, as real ones behave: they join, sync, heartbeat, commit, are slow, leave, and come back.

Each is a script over one connection. A careless one forgets what it ought to do from time to time, as processes that
hang or are badly written do, until the world is calm.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
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
from tests.simulation.scenario import REBALANCES_MS, SESSIONS_MS
from tests.simulation.world import PARTITIONS, Actor, Script, World

NO_ID: Final = bytes(16)
OFFERS: Final = (
    (("range", b"r"),),
    (("range", b"r"), ("roundrobin", b"rr")),
    (("roundrobin", b"rr"), ("range", b"r")),
    (("range", b"other"), ("sticky", b"s")),
    (("sticky", b"s"),),
)
"""What a consumer may offer; only the last does not go with most others."""
OVER: Final = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors after which a consumer gives up."""

Step = Generator[Any, Any, bool]
"""A part of a script; False when the consumer is to join again."""


class Consumer(Actor):
    """One consumer of one group; `instance` makes it a static member.

    `names_instance`: it says its instance id wherever it can (aiokafka does so only when it joins and syncs).
    """

    def __init__(self, world: World, name: str, group: str, instance: str | None) -> None:
        super().__init__(world, name)
        random = world.random
        self.group = group
        self.instance = instance
        self.two_step = instance is None and random() < 0.6
        self.skip = random() < 0.7
        self.names_instance = instance if random() < 0.8 else None
        # an instance keeps its timeouts, whichever process it is
        choice = random() if instance is None else hash_of(instance) % 10 / 10
        self.session_ms = SESSIONS_MS[int(choice * len(SESSIONS_MS))]
        self.rebalance_ms = REBALANCES_MS[int(choice * 97 % 1 * len(REBALANCES_MS))]
        self.offers = offered(int(random() * 3.2) if random() < 0.95 else 4)
        self.beat_ms = self.session_ms // 3
        self.careless = random() < 0.25
        self.latency_ms = 3 if random() < 0.9 else 4_000
        self.member_id = ""
        self.generation = -1
        self.assigned: bytes | None = None
        self.busy_until_ms = 0

    def chance(self, of: float) -> bool:
        """Whether something that only happens in unruly times happens now."""
        return not self.world.calm and self.world.random() < of

    # ---- the script

    def live(self) -> Script:
        """Join, sync, work; again and again."""
        while True:
            self.assigned = None
            joined = yield from self.join()
            if joined is None:
                return
            if (yield from self.sync(joined)) and (yield from self.work()):
                return

    def again(self, script: Script) -> None:
        """Go on with another part of the script, in the midst of whatever it does."""
        self.kill()
        self.start(script)

    def zombie(self) -> Script:
        """Go on as a member that does not know yet that it may be none any more."""
        if not (yield from self.work()):
            yield from self.live()

    def join(self) -> Generator[Any, Any, JoinGroupResponse | None]:
        """Ask until let in; None when there is no hope, or it has lost heart."""
        if self.careless and self.chance(0.1):
            yield self.rebalance_ms + 1_000  # it does not come back in time
        while True:
            response = yield JoinGroupRequest(
                self.group,
                self.session_ms,
                self.rebalance_ms,
                self.member_id,
                self.instance,
                "consumer",
                self.offers,
            )
            if response is None:
                continue
            error = response.error_code
            if not error:
                self.member_id, self.generation = response.member_id, response.generation_id
                return response  # type: ignore[no-any-return]  # what comes for a JoinGroup
            if error in OVER:
                return None
            if error == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                if self.chance(0.25):
                    yield int(self.world.random() * 2 * self.session_ms)
                continue
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            yield 100

    def sync(self, joined: JoinGroupResponse) -> Step:
        """Bring the assignment, or fetch one's own."""
        shares: Sequence[SyncGroupRequestAssignment] = ()
        if joined.leader == joined.member_id and not joined.skip_assignment:
            shares = self.assign(joined.members)
        if self.careless and self.chance(0.15):
            yield from self.hang(int(self.world.random() * 60_000))
        response = yield SyncGroupRequest(
            self.group,
            self.generation,
            self.member_id,
            self.instance,
            joined.protocol_type,
            joined.protocol_name,
            shares,
        )
        if response is None:
            return False
        error = response.error_code
        if not error:
            self.assigned = response.assignment
            return True
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.kill()
        elif error != ErrorCode.REBALANCE_IN_PROGRESS:
            yield 100
        return False

    def hang(self, ms: int) -> Generator[Any, Any, None]:
        """Heartbeat for so long, and do nothing else."""
        end_ms = self.world.ms + ms
        while self.world.ms < end_ms and not self.world.calm:
            yield self.beat_ms
            yield HeartbeatRequest(self.group, self.generation, self.member_id, self.names_instance)

    def assign(self, members: Sequence[JoinGroupResponseMember]) -> list[SyncGroupRequestAssignment]:
        """Every partition to one member; a careless leader forgets somebody, or names one who is none."""
        rows = [
            SyncGroupRequestAssignment(one.member_id, bytes(range(number, PARTITIONS, len(members))))
            for number, one in enumerate(members)
        ]
        if self.careless and self.chance(0.2):
            rows[-1] = SyncGroupRequestAssignment("nobody", b"")
        return rows

    def work(self) -> Step:
        """Heartbeat, commit, fetch, until the group rebalances (False) or it leaves (True)."""
        world, random = self.world, self.world.random
        while True:
            yield int(self.beat_ms * (0.7 + 0.5 * random()))
            if self.careless and self.chance(0.03):
                yield int(2 * self.session_ms * random())
            response = yield HeartbeatRequest(self.group, self.generation, self.member_id, self.names_instance)
            if response is None:
                continue
            error = response.error_code
            if not error:
                if world.calm or (chance := random()) > 0.6:
                    continue
                if chance < 0.3:
                    error = yield from self.commit()
                elif chance < 0.4:
                    yield from self.fetch()
                elif chance < 0.44:
                    self.busy_until_ms = world.ms + int(random() * 1.5 * self.rebalance_ms)
                elif chance < 0.48:
                    if random() < 0.5:
                        self.offers = offered(int(random() * 4))
                    return False  # it subscribes to something else, or has a reason of its own
                elif chance < 0.5:
                    return (yield from self.leave())
            if error == ErrorCode.REBALANCE_IN_PROGRESS:
                if world.ms < self.busy_until_ms and not world.calm:
                    continue  # still at work on what it polled
                if self.chance(0.3):
                    yield from self.commit()
                return False
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
                return False
            if error == ErrorCode.ILLEGAL_GENERATION:
                return False
            if error == ErrorCode.FENCED_INSTANCE_ID:
                return True
            if error:
                yield 100

    def commit(self) -> Generator[Any, Any, int]:
        """Commit some offset of each partition it has; the first row's error."""
        rows = [
            OffsetCommitRequestPartition(one, int(self.world.random() * 1_000), 1, "m") for one in self.assigned or b""
        ]
        if not rows:
            return 0
        response = yield OffsetCommitRequest(
            self.group,
            self.generation,
            self.member_id,
            self.names_instance,
            -1,
            [OffsetCommitRequestTopic("t", NO_ID, rows)],
        )
        error: int = response.topics[0].partitions[0].error_code if response is not None else 0
        return error

    def fetch(self) -> Generator[Any, Any, None]:
        """Ask for what was committed of its partitions, or of all."""
        topics = [OffsetFetchRequestTopics("t", NO_ID, list(self.assigned or b""))]
        wanted = topics if self.world.random() < 0.7 else None
        yield OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self.group, None, -1, wanted)])

    def leave(self) -> Step:
        """Say goodbye; a static member just goes, to be back."""
        if self.instance is None:
            yield LeaveGroupRequest(self.group, "", [MemberIdentity(self.member_id, None, "done")])
        return True


def offered(number: int) -> list[JoinGroupRequestProtocol]:
    """The protocols of one JoinGroup."""
    return [JoinGroupRequestProtocol(name, metadata) for name, metadata in OFFERS[number]]


def hash_of(text: str) -> int:
    """A number for a name that is the same in every process."""
    return sum((at + 1) * ord(letter) for at, letter in enumerate(text))
