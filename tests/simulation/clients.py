"""Consumers with faults: slow, careless, and of many kinds.

A careless consumer sometimes omits what it ought to do, as hanging or badly written processes do, until the world is
calm.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from muster.simulation.actor import Script
from muster.simulation.consumer import Consumer, Joining, Step, fetch_of, rows_of
from muster.virtual.world import World
from tests.simulation.scenario import PARTITIONS, REBALANCES_MS, SESSIONS_MS, TOPIC

OFFERS: Final = (
    (("range", b"r"),),
    (("range", b"r"), ("roundrobin", b"rr")),
    (("roundrobin", b"rr"), ("range", b"r")),
    (("range", b"other"), ("sticky", b"s")),
    (("sticky", b"s"),),
)
"""Protocols that a consumer may offer; only the last does not fit most others."""


class UnrulyConsumer(Consumer):
    """One consumer of one group; its share has one byte for each partition."""

    def __init__(self, world: World, name: str, group_id: str, instance: str | None) -> None:
        random = world.random
        # an instance keeps its timeouts in all its processes
        choice = random() if instance is None else hash_of(instance) % 10 / 10
        session_ms = SESSIONS_MS[int(choice * len(SESSIONS_MS))]
        rebalance_ms = REBALANCES_MS[int(choice * 97 % 1 * len(REBALANCES_MS))]
        super().__init__(world, name, group_id, instance, session_ms=session_ms, rebalance_ms=rebalance_ms)
        self.two_step = instance is None and random() < 0.6
        self.skip = random() < 0.7
        self.names_instance = instance if random() < 0.8 else None
        self.offered = offered(int(random() * 3.2) if random() < 0.95 else 4)
        self.beat_ms = session_ms // 3
        self.careless = random() < 0.25
        self.latency_ms = 3 if random() < 0.9 else 4_000
        self.busy_until_ms = 0

    def chance(self, of: float) -> bool:
        """Whether a fault of this chance happens now; never when the world is calm."""
        return not self.world.calm and self.world.random() < of

    def offers(self) -> list[JoinGroupRequestProtocol]:
        return self.offered

    def forget(self) -> None:
        """Forget the last answer: the consumer continues to send its old generation."""
        self.member_id = ""

    # ---- the script

    def zombie(self) -> Script:
        """Continue as a member that does not know that it may have been removed."""
        if not (yield from self.work()):
            yield from self.live()

    def join(self) -> Joining:
        if self.careless and self.chance(0.1):
            yield self.rebalance_ms + 1_000  # it does not return in time
        return (yield from super().join())

    def reported_id(self) -> Script:
        if self.chance(0.25):
            yield int(self.world.random() * 2 * self.session_ms)

    def sync(self, joined: JoinGroupResponse) -> Step:
        if self.careless and self.chance(0.15):
            yield from self.hang(int(self.world.random() * 60_000))
        return (yield from super().sync(joined))

    def hang(self, ms: int) -> Script:
        """Send heartbeats for `ms`, and do nothing else."""
        end_ms = self.world.ms + ms
        while self.world.ms < end_ms and not self.world.calm:
            yield self.beat_ms
            yield self.heartbeat()

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        """Give every partition to one member. A careless leader forgets a member, or names an unknown one."""
        ids = [one.member_id for one in joined.members]
        shares = {one: bytes(range(number, PARTITIONS, len(ids))) for number, one in enumerate(ids)}
        if self.careless and self.chance(0.2):
            del shares[ids[-1]]
            shares["nobody"] = b""
        return shares

    def work(self) -> Step:
        """Send heartbeats, commit and fetch, until the group rebalances or the consumer leaves."""
        world, random = self.world, self.world.random
        while True:
            yield int(self.beat_ms * (0.7 + 0.5 * random()))
            if self.careless and self.chance(0.03):
                yield int(2 * self.session_ms * random())
            response = yield self.heartbeat()
            if response is None:
                continue
            error = response.error_code
            if not error:
                if world.calm or (chance := random()) > 0.6:
                    continue
                if chance < 0.3:
                    error = yield from self.commit()
                elif chance < 0.4:
                    yield fetch_of(self.group_id, {TOPIC: self.assigned or b""} if random() < 0.7 else None)
                elif chance < 0.44:
                    self.busy_until_ms = world.ms + int(random() * 1.5 * self.rebalance_ms)
                elif chance < 0.48:
                    if random() < 0.5:
                        self.offered = offered(int(random() * 4))
                    return False  # it changes its subscription, or has a reason of its own
                elif chance < 0.5:
                    if self.instance is None:
                        yield self.leave("done")
                    return True  # a static member just stops, and will return
            if error == ErrorCode.REBALANCE_IN_PROGRESS:
                if world.ms < self.busy_until_ms and not world.calm:
                    continue  # still working on the records that it polled
                if self.chance(0.3):
                    yield from self.commit()
                return False
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
                self.react_to(error)
                return error == ErrorCode.FENCED_INSTANCE_ID
            if error:
                yield self.retry_ms

    def commit(self) -> Generator[Any, Any, int]:
        """Commit some offset of each own partition; the first row's error."""
        offsets = {one: int(self.world.random() * 1_000) for one in self.assigned or b""}
        if not offsets:
            return 0
        response = yield self.commit_of(rows_of({TOPIC: offsets}, 1, "m"))
        error: int = response.topics[0].partitions[0].error_code if response is not None else 0
        return error


def offered(number: int) -> list[JoinGroupRequestProtocol]:
    """The protocols of one JoinGroup."""
    return [JoinGroupRequestProtocol(name, metadata) for name, metadata in OFFERS[number]]


def hash_of(text: str) -> int:
    """A number for a name, which is the same in every process."""
    return sum((at + 1) * ord(letter) for at, letter in enumerate(text))
