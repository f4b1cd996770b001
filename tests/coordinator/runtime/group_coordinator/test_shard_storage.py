"""A shard with real groups over a real log, on a disk that fails. Acknowledged records survive, and a failed write was
never visible.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand
from muster.coordinator.log import UnifiedLog, batches
from muster.coordinator.log.producers.append_checks import NOT_NEEDED, VerificationGuard
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.storage.memory import MemoryFile, MemoryStorage
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.replies import NO_DELAY_MS
from muster.coordinator.state_machine.interface import Client, Command, Producer
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.list_groups import ListGroupsRequest
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
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from muster.protocol.records import OFFSETS
from tests.coordinator.api.harness import Answers
from tests.coordinator.log.support import PendingResult, manage

CLIENT = Client("c", "/1.2.3.4")
TOPIC = "__consumer_offsets"
SETTINGS = GroupSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100)
Buffer = bytes | bytearray | memoryview


class Disk(MemoryStorage):
    """Files in memory on a disk that can break. While it is full, it takes the first half of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.broken = False

    def file(self, path: str) -> DiskFile:
        return DiskFile(self, path)


class DiskFile(MemoryFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__(disk.files, path)
        self._disk = disk

    def pwrite(self, data: Buffer, position: int) -> None:
        if self._disk.full:
            super().pwrite(bytes(data)[: len(data) // 2], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        super().pwrite(data, position)

    def pwrite_parts(self, parts: Sequence[Buffer], position: int) -> None:
        self.pwrite(b"".join(parts), position)

    def sync(self) -> None:
        if self._disk.broken:
            raise OSError(errno.EIO, "Input/output error")


class StorageHarness:
    """An active shard. `wait_for_sync`: durable means synced, and syncs end when `later.settle` is called."""

    def __init__(self, *, wait_for_sync: bool = False) -> None:
        self.disk = Disk()
        self.clock = ManualClock(0)
        self.ids = itertools.count(1)
        self.later = PendingResult()
        self.manager = manage(self.disk, sync=self.later.sync)
        self.manager.open_log(TOPIC, 0, wait_for_sync=wait_for_sync)
        self.known: set[int] = set()
        self.shard = GroupShard(
            0,
            lambda image: GroupCore(SETTINGS, image),
            self._open,
            self.clock,
            NO_TOPICS,
            known_producers=lambda ids: self.known.intersection(ids),
        )
        for _ in self.shard.runtime.start():
            pass

    def _open(self) -> Any:
        log = self.manager.get(TOPIC, 0)
        assert log is not None
        return (log if log.failure is None else self.manager.reopen(TOPIC, 0)), 0

    @property
    def log(self) -> UnifiedLog:
        log = self.manager.get(TOPIC, 0)
        assert log is not None
        return log

    def ask(self, request: Message) -> Answers:
        answers = Answers()
        self.shard.runtime.submit(Command(request, answers, CLIENT))
        return answers

    def commit(self, offset: int, group: str = "g", member: tuple[int, str] = (-1, "")) -> Answers:
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])
        return self.ask(OffsetCommitRequest(group, *member, topics=[topic]))

    def fetch(self, group: str = "g") -> Answers:
        asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])
        return self.ask(OffsetFetchRequest(groups=[asked]))

    def join(
        self, member: str = "", group: str = "members", rebalance_ms: int = 60_000, instance: str | None = None
    ) -> Answers:
        protocols = [JoinGroupRequestProtocol("range", b"x")]
        request = JoinGroupRequest(group, 60_000, rebalance_ms, member, instance, "consumer", protocols)
        answers = Answers()
        self.shard.runtime.submit(JoinCommand(request, answers, CLIENT, f"{next(self.ids)}", True, True))
        return answers

    def heartbeat(self, request: HeartbeatRequest) -> Answers:
        answers = Answers()
        at_once = self.shard.heartbeat(request, answers, CLIENT)
        if at_once is not None:
            answers(at_once)
        return answers

    def enter(self) -> str:
        """Make a group of one member that has its assignment, all of it durable; the member's id."""
        asking = self.join()
        self.later.settle()
        member: str = asking.one().member_id
        joining = self.join(member)
        self.clock.advance(NO_DELAY_MS)
        self.later.settle()
        joined = joining.one()
        assert joined.error_code == ErrorCode.NONE
        everything = [SyncGroupRequestAssignment(member, b"all")]
        syncing = self.ask(
            SyncGroupRequest("members", joined.generation_id, member, None, "consumer", "range", everything)
        )
        self.later.settle()
        assert syncing.one().assignment == b"all"
        return member


def code(committed: Answers) -> int:
    found: int = committed.one().topics[0].partitions[0].error_code
    return found


def offset(fetched: Answers) -> int:
    found: int = fetched.one().groups[0].topics[0].partitions[0].committed_offset
    return found


class TestAFullDisk:
    def test_after_a_full_disk_only_acknowledged_commits_exist(self) -> None:
        harness = StorageHarness()
        assert code(harness.commit(5)) == code(harness.commit(6, "h")) == ErrorCode.NONE
        harness.disk.full = True
        assert code(harness.commit(7)) == ErrorCode.NOT_COORDINATOR
        assert not harness.shard.active
        harness.disk.full = False
        harness.clock.advance(0)
        assert offset(harness.fetch()) == 5
        assert offset(harness.fetch("h")) == 6
        assert code(harness.commit(8)) == ErrorCode.NONE
        assert offset(harness.fetch()) == 8

    def test_members_stay_members_after_a_full_disk(self) -> None:
        harness = StorageHarness()
        member = harness.enter()
        harness.disk.full = True
        harness.commit(7)
        assert (
            harness.ask(HeartbeatRequest("members", 1, member)).one().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        harness.disk.full = False
        harness.clock.advance(0)
        assert harness.ask(HeartbeatRequest("members", 1, member)).one().error_code == ErrorCode.NONE
        group = harness.ask(DescribeGroupsRequest(["members"])).one().groups[0]
        assert (group.group_state, [row.member_assignment for row in group.members]) == ("Stable", [b"all"])

    def test_a_static_member_whose_return_was_not_written_keeps_its_old_id(self) -> None:
        harness = StorageHarness()
        joining = harness.join(instance="i")
        harness.clock.advance(NO_DELAY_MS)
        member: str = joining.one().member_id
        everything = [SyncGroupRequestAssignment(member, b"all")]
        sync = SyncGroupRequest("members", 1, member, "i", "consumer", "range", everything)
        assert harness.ask(sync).one().assignment == b"all"
        harness.disk.full = True
        refused = harness.join(instance="i").one()
        assert (refused.error_code, refused.member_id) == (ErrorCode.NOT_COORDINATOR, "")
        harness.disk.full = False
        harness.clock.advance(0)
        assert harness.ask(HeartbeatRequest("members", 1, member, "i")).one().error_code == ErrorCode.NONE
        returned = harness.join(instance="i").one()
        assert (returned.error_code, returned.generation_id) == (ErrorCode.NONE, 1)
        assert harness.ask(HeartbeatRequest("members", 1, member, "i")).one().error_code == ErrorCode.FENCED_INSTANCE_ID

    def test_parked_joins_are_refused_when_the_disk_is_full(self) -> None:
        harness = StorageHarness()
        member = harness.enter()
        other = harness.join().one().member_id
        joining = harness.join(other)
        assert joining.all == []
        harness.disk.full = True
        harness.commit(7)
        assert joining.one().error_code == ErrorCode.NOT_COORDINATOR
        harness.disk.full = False
        harness.clock.advance(0)
        # no record of the begun rebalance was written
        assert harness.ask(HeartbeatRequest("members", 1, member)).one().error_code == ErrorCode.NONE

    def test_groups_can_be_read_while_the_disk_is_full(self) -> None:
        harness = StorageHarness()
        harness.commit(5)
        harness.disk.full = True
        for _ in range(3):
            assert code(harness.commit(9)) == ErrorCode.NOT_COORDINATOR
            harness.clock.advance(60_000)
            assert offset(harness.fetch()) == 5
        harness.disk.full = False
        assert code(harness.commit(9)) == ErrorCode.NONE


class TestADiskThatIsWaitedFor:
    def test_nothing_is_shown_before_it_is_durable(self) -> None:
        harness = StorageHarness(wait_for_sync=True)
        committed, shown = harness.commit(5), harness.fetch()
        assert committed.all == shown.all == []
        harness.later.settle()
        assert (code(committed), offset(shown)) == (ErrorCode.NONE, 5)
        assert offset(harness.fetch()) == 5

    @pytest.mark.parametrize("what", ["OffsetFetch", "Heartbeat", "DescribeGroups", "SyncGroup", "ListGroups"])
    def test_every_answer_that_shows_the_state_waits_for_the_newest_record(self, what: str) -> None:
        harness = StorageHarness(wait_for_sync=True)
        member = harness.enter()
        committed = harness.commit(5)  # another group's request, which does not matter
        assert harness.log.end_offset > harness.log.durable_offset
        shown = {
            "OffsetFetch": lambda: harness.fetch("members"),
            "Heartbeat": lambda: harness.heartbeat(HeartbeatRequest("members", 1, member)),
            "DescribeGroups": lambda: harness.ask(DescribeGroupsRequest(["members"])),
            "SyncGroup": lambda: harness.ask(SyncGroupRequest("members", 1, member, None, "consumer", "range")),
            "ListGroups": lambda: harness.ask(ListGroupsRequest()),
        }[what]()
        assert shown.all == committed.all == []
        harness.later.settle()
        assert code(committed) == 0
        assert type(shown.one()).__name__ == f"{what}Response"

    def test_readers_see_only_durable_records(self) -> None:
        harness = StorageHarness(wait_for_sync=True)
        partition = Partition(TOPIC, b"i" * 16, 0, 0, harness.log)
        harness.commit(5)
        harness.later.settle()
        durable = partition.log.durable_offset
        harness.commit(6)
        assert (partition.log.durable_offset, harness.log.end_offset) == (durable, durable + 1)
        assert partition.read(durable, 10_000, True, partition.log.durable_offset) == b""
        harness.later.settle()
        assert partition.log.durable_offset == durable + 1
        assert partition.read(durable, 10_000, True, partition.log.durable_offset) != b""

    @pytest.mark.parametrize("what", ["Heartbeat", "OffsetCommit", "nothing"])
    def test_a_member_whose_answer_waits_for_the_disk_does_not_expire(self, what: str) -> None:
        harness = StorageHarness(wait_for_sync=True)
        member = harness.enter()  # its session timeout is 60 s
        beat = HeartbeatRequest("members", 1, member)
        harness.clock.advance(50_000)
        harness.heartbeat(beat)
        harness.clock.advance(1)
        harness.commit(5)  # another group's request
        parked = {
            "Heartbeat": lambda: harness.heartbeat(beat),
            "OffsetCommit": lambda: harness.commit(6, "members", (1, member)),
            # whatever else of the same connection is here, which has one request at a time
            "nothing": lambda: harness.fetch("members"),
        }[what]()
        harness.clock.advance(300_000)
        assert parked.all == []
        harness.later.settle()
        assert parked.one()
        harness.clock.advance(59_000)
        assert harness.heartbeat(beat).one().error_code == ErrorCode.NONE
        # and now it is
        harness.clock.advance(60_000)
        harness.later.settle()
        assert harness.heartbeat(beat).one().error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_dead_member_expires_a_session_after_a_slow_sync_has_ended(self) -> None:
        harness = StorageHarness(wait_for_sync=True)
        member = harness.enter()
        harness.clock.advance(1_000)
        harness.commit(5)
        harness.clock.advance(300_000)
        harness.later.settle()
        harness.clock.advance(60_000)
        harness.later.settle()
        answer = harness.heartbeat(HeartbeatRequest("members", 1, member))
        assert answer.one().error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_dead_member_expires_also_if_syncs_never_end(self) -> None:
        harness = StorageHarness(wait_for_sync=True)
        member = harness.enter()
        for number in range(130):  # a write is always under way
            harness.commit(number)
            harness.clock.advance(500)
            harness.later.settle()
        answer = harness.heartbeat(HeartbeatRequest("members", 1, member))
        harness.later.settle()
        assert answer.one().error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_failed_sync_takes_back_unacknowledged_commits(self) -> None:
        harness = StorageHarness(wait_for_sync=True)
        first = harness.commit(5)
        harness.later.settle()
        second, shown = harness.commit(6), harness.fetch()
        harness.disk.broken = True
        harness.later.settle()
        assert code(first) == ErrorCode.NONE
        assert code(second) == ErrorCode.NOT_COORDINATOR
        assert shown.one().groups[0].error_code == ErrorCode.NOT_COORDINATOR
        harness.disk.broken = False
        harness.clock.advance(0)
        again = harness.fetch()
        harness.later.settle()
        assert offset(again) == 5

    def test_the_log_is_loaded_less_and_less_often_while_syncs_fail(self) -> None:
        harness = StorageHarness(wait_for_sync=True)
        harness.disk.broken = True
        waited_ms = []
        for number in range(4):
            committed = harness.commit(number)
            harness.clock.advance(0)
            harness.later.settle()
            assert code(committed) == ErrorCode.NOT_COORDINATOR
            began_ms = harness.clock.now().mono_ms
            while not harness.shard.active:
                harness.clock.advance(10)
            waited_ms.append(harness.clock.now().mono_ms - began_ms)
        assert waited_ms == [100, 600, 2400, 9600]  # each time the rollback fails as well
        harness.disk.broken = False
        committed = harness.commit(5)
        harness.later.settle()
        assert code(committed) == ErrorCode.NONE
        harness.disk.broken = True
        refused = harness.commit(6)
        harness.later.settle()
        assert code(refused) == ErrorCode.NOT_COORDINATOR
        harness.disk.broken = False
        harness.clock.advance(0)
        assert harness.shard.active

    @pytest.mark.parametrize("broken", [False, True])
    def test_answers_wait_for_records_without_a_client_too(self, broken: bool) -> None:
        harness = StorageHarness(wait_for_sync=True)
        asking = harness.join()
        harness.later.settle()
        joining = harness.join(asking.one().member_id, rebalance_ms=100)
        harness.clock.advance(NO_DELAY_MS)
        harness.later.settle()
        assert joining.one().error_code == ErrorCode.NONE
        # no sync is requested, so the group loses its member at a deadline: a record, and no request that it answers
        before = harness.log.end_offset
        harness.clock.advance(60_100)
        assert harness.log.end_offset > before
        shown = harness.ask(DescribeGroupsRequest(["members"]))
        assert shown.all == []
        harness.disk.broken = broken
        harness.later.settle()
        row = shown.one().groups[0]
        assert (row.error_code, row.group_state) == (
            (ErrorCode.NOT_COORDINATOR, "") if broken else (ErrorCode.NONE, "Empty")
        )


class TestATransactionThatIsLeftOpen:
    """A cluster's transaction, in a log that was copied from it."""

    LIMIT_MS = 900_000

    def harness(self, idle_ms: int, *known: int) -> StorageHarness:
        harness = StorageHarness()
        assert code(harness.commit(5)) == ErrorCode.NONE
        key = OFFSETS.encode_key(OffsetCommitKey("g", "t", 0))
        value = OFFSETS.encode_value(OffsetCommitValue(9), 4)
        at_ms = harness.clock.now().wall_ms - idle_ms
        more = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 0}
        harness.log.append(0, batches.build([(key, value)], timestamp_ms=at_ms, transactional=True, **more), wall_ms=0)
        harness.known |= set(known)
        for _ in harness.shard.runtime.start():
            pass
        harness.clock.advance(0)
        return harness

    def stable(self, harness: StorageHarness) -> tuple[int, int]:
        asked = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])
        row = (
            harness.ask(OffsetFetchRequest(groups=[asked], require_stable=True)).one().groups[0].topics[0].partitions[0]
        )
        return row.error_code, row.committed_offset

    def markers(self, harness: StorageHarness) -> list[tuple[int, int]]:
        return [(one.producer_id, one.producer_epoch) for one in harness.log.headers() if one.is_control]

    def test_a_copied_open_transaction_is_aborted_after_its_timeout(self) -> None:
        harness = self.harness(idle_ms=1_000)
        assert self.stable(harness) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert offset(harness.fetch()) == 5
        harness.clock.advance(self.LIMIT_MS - 1_001)
        assert self.markers(harness) == []
        with capture_logs() as logged:
            harness.clock.advance(1)
        (line,) = [line for line in logged if line["log_level"] == "warning"]
        assert (line["producer_id"], line["offsets"], line["idle_ms"]) == (7, 1, self.LIMIT_MS)
        assert self.markers(harness) == [(7, 3)]
        assert self.stable(harness) == (ErrorCode.NONE, 5)
        for _ in harness.shard.runtime.start():
            pass
        assert self.markers(harness) == [(7, 3)]
        assert offset(harness.fetch()) == 5

    def test_an_old_copied_transaction_is_aborted_at_the_load(self) -> None:
        harness = self.harness(idle_ms=self.LIMIT_MS)
        assert self.markers(harness) == [(7, 3)]
        assert self.stable(harness) == (ErrorCode.NONE, 5)

    def test_a_copied_transaction_of_a_known_producer_is_left_to_its_coordinator(self) -> None:
        harness = self.harness(self.LIMIT_MS, 7)
        harness.clock.advance(2 * self.LIMIT_MS)
        assert self.markers(harness) == []
        # the id is forgotten: no producer could end the transaction any more
        harness.known.clear()
        harness.clock.advance(60_000)
        assert self.markers(harness) == [(7, 3)]

    def test_the_marker_has_the_epoch_of_the_coordinator_that_wrote_before(self) -> None:
        harness = self.harness(idle_ms=0)
        harness.log.append_marker(0, EndMarker(7, 3, True, 12, 0), wall_ms=0)
        at_ms = harness.clock.now().wall_ms
        more = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 1, "transactional": True}
        key = OFFSETS.encode_key(OffsetCommitKey("g", "t", 0))
        harness.log.append(0, batches.build([(key, None)], timestamp_ms=at_ms, **more), wall_ms=0)
        for _ in harness.shard.runtime.start():
            pass
        harness.clock.advance(self.LIMIT_MS)
        assert self.markers(harness) == [(7, 3), (7, 3)]
        producer = harness.log.producers.get(7)
        assert producer is not None
        assert (producer.coordinator_epoch, producer.transaction_start) == (12, None)

    def test_a_copied_transaction_is_not_aborted_by_a_resigned_shard(self) -> None:
        harness = self.harness(idle_ms=0)
        harness.shard.runtime.resign()
        harness.clock.advance(2 * self.LIMIT_MS)
        assert self.markers(harness) == []

    def test_a_marker_for_a_copied_transaction_is_tried_again(self) -> None:
        harness = self.harness(idle_ms=0)
        harness.disk.full = True
        harness.clock.advance(self.LIMIT_MS)
        assert not harness.shard.active
        harness.disk.full = False
        harness.clock.advance(60_000)
        assert harness.shard.active
        harness.clock.advance(0)
        assert self.markers(harness) == [(7, 3)]


class TestRecordsOfATransaction:
    """What the log answers before the core is asked (`append_error`)."""

    A = Producer(7, 3)

    def commit(self, harness: StorageHarness, producer: Producer, guard: VerificationGuard | None) -> int:
        topic = TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 5)])
        request = TxnOffsetCommitRequest("tx", "g", *producer, topics=[topic])
        answers = Answers()
        error = harness.shard.append_error(producer, guard)
        harness.shard.runtime.submit(TxnCommitCommand(request, answers, CLIENT, error), producer)
        harness.clock.advance(0)
        return int(answers.one().topics[0].partitions[0].error_code)

    def guard(self, harness: StorageHarness, producer: Producer = A) -> VerificationGuard | None:
        return harness.log.producers.verification(*producer, -1, supports_epoch_bump=False, now_ms=0)

    def test_transactional_offsets_are_written_in_their_producers_batches(self) -> None:
        harness = StorageHarness()
        assert self.commit(harness, self.A, self.guard(harness)) == 0
        assert self.commit(harness, self.A, None) == 0
        assert [(one.producer_id, one.producer_epoch, one.is_transactional) for one in harness.log.headers()] == [
            (7, 3, True)
        ] * 2

    def test_a_transactional_commit_with_an_old_epoch_is_refused_without_a_reload(self) -> None:
        harness = StorageHarness()
        assert self.commit(harness, self.A, self.guard(harness)) == 0
        assert self.commit(harness, Producer(7, 2), None) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert harness.shard.active
        assert len(list(harness.log.headers())) == 1

    def test_an_unverified_transactional_commit_is_refused_without_a_reload(self) -> None:
        harness = StorageHarness()
        guard = self.guard(harness)
        assert self.commit(harness, self.A, None) == ErrorCode.INVALID_TXN_STATE
        harness.log.append_marker(0, EndMarker(7, 3, True, 0, 0), wall_ms=0)
        assert self.commit(harness, self.A, guard) == ErrorCode.INVALID_TXN_STATE
        assert self.commit(harness, self.A, NOT_NEEDED) == 0

    def test_a_transactional_commit_to_an_inactive_shard_is_not_checked(self) -> None:
        harness = StorageHarness()
        harness.shard.runtime.resign()
        assert self.commit(harness, self.A, None) == ErrorCode.NOT_COORDINATOR

    def test_the_end_of_a_transaction_is_acknowledged_and_its_offsets_are_shown(self) -> None:
        harness = StorageHarness()
        self.commit(harness, self.A, self.guard(harness))
        ended: list[int] = []
        harness.shard.runtime.complete_transaction(self.A, is_committed=True, ended=ended.append)
        assert (ended, offset(harness.fetch())) == ([0], 5)
