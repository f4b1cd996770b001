"""The share coordinator of a node, as persister: from its first question to the next start."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.runtime.share_coordinator import shard, share_states
from muster.coordinator.runtime.share_coordinator.error_responses import refuse, with_error
from muster.coordinator.runtime.share_coordinator.share_states import RETRY_MS
from muster.coordinator.share_state.persister import (
    UNKNOWN,
    DeleteState,
    LoadedState,
    ReadState,
    StateKey,
    StateResponse,
    Summary,
)
from muster.coordinator.share_state.state import LogPosition
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.cluster_image import Leader
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import SHARE_STATE_TOPIC
from muster.protocol.errors import ErrorCode
from tests.coordinator.runtime.share_coordinator.harness import PARTITIONS, ROWS, SharesHarness

OK = StateResponse()


class TestTheTopic:
    def test_the_first_question_creates_the_topic(self) -> None:
        harness = SharesHarness()
        assert not harness.states.routing.ready
        assert harness.initialize() == OK
        assert len(harness.states.routing.shards) == PARTITIONS
        config = harness.topics.by_name[SHARE_STATE_TOPIC].partitions[0]
        assert config is not None
        assert config.log.config.cleanup_policy == ("delete",)
        assert config.log.config.retention_ms == -1

    def test_questions_fail_after_some_time_without_a_topic(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse_topic(_: str) -> Any:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

        harness = SharesHarness()
        monkeypatch.setattr(harness.topics, "ensuring", refuse_topic)
        answers: list[Any] = []
        harness.states.read(ReadState(harness.key, 0), answers.append)
        harness.clock.advance(sum(RETRY_MS) - 1)
        assert not answers
        harness.clock.advance(1)
        assert answers == [refuse(ReadState(harness.key, 0), ErrorCode.NOT_COORDINATOR)]


class TestAState:
    def test_a_state_outlives_a_restart(self) -> None:
        harness = SharesHarness()
        harness.initialize()
        assert harness.write(*ROWS, done=5) == OK
        harness = harness.restarted()
        assert harness.summary() == Summary(0, None, 1, 0, 0, 5)
        assert harness.read(3) == LoadedState(0, None, 1, 0, ROWS)
        assert harness.write(leader_epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert harness.restarted().write(leader_epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH

    def test_an_unknown_topic_has_no_state(self) -> None:
        harness = SharesHarness()
        unknown = StateKey("g", bytes(16), 0)
        assert harness.initialize(key=unknown).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert harness.ask(harness.states.delete, DeleteState(harness.key)) == OK
        assert harness.summary() == Summary()

    def test_the_states_of_a_deleted_topic_are_deleted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shard, "FORGOTTEN_AT_ONCE", 1)
        harness = SharesHarness()
        harness.initialize()
        harness.initialize(key=harness.key._replace(partition=0))
        harness.initialize(key=harness.key._replace(group_id="h"))
        assert len({key for one in harness.states.routing.shards for key in one.keys()}) == 3  # noqa: SIM118  # no dictionary
        at_once(harness.topics.deleting(harness.topics.by_name["t"]))
        harness.topics.publish()
        harness.clock.advance(0)
        assert [key for one in harness.states.routing.shards for key in one.keys()] == []  # noqa: SIM118  # no dictionary
        assert harness.restarted().states.routing.shards[0].runtime.core is not None

    def test_records_that_are_not_needed_are_deleted(self) -> None:
        harness = SharesHarness(share_coordinator_snapshot_update_records_per_snapshot=1)
        harness.initialize(UNKNOWN)
        for offset in range(6):
            harness.write(start=offset)
        log = harness.states.routing.shard(str(harness.key)).runtime.log
        assert log.start_offset == 0
        harness.clock.advance(300_000)
        assert log.start_offset >= 5
        harness = harness.restarted()
        assert harness.read().start_offset == 5
        core = harness.states.routing.shard(str(harness.key)).runtime.core
        assert core is not None
        assert core.states.next_offset == harness.states.routing.shard(str(harness.key)).runtime.log.end_offset

    def test_states_in_wrong_partitions_are_logged(self, capsys: pytest.CaptureFixture[str]) -> None:
        harness = SharesHarness()
        for number in range(6):
            harness.initialize(key=harness.key._replace(group_id=f"g{number}"))
        harness = harness.restarted()
        assert "wrong partitions" not in capsys.readouterr().out
        shards = harness.states.routing.shards
        shards[0].keys, shards[1].keys = shards[1].keys, shards[0].keys
        harness.states._check_placement()
        assert "share partitions are in wrong partitions of __share_group_state" in capsys.readouterr().out


class TestLeadership:
    def test_the_leading_node_of_the_process_is_asked(self) -> None:
        harness = SharesHarness(nodes=2)
        harness.initialize()
        harness.write(*ROWS)
        harness.leaders = [Leader(2, 1)] * PARTITIONS
        for node in harness.nodes.values():
            assert node.leaderships is not None
            node.leaderships.leave(harness.leaders)
            node.leaderships.take(harness.leaders)
        harness.clock.advance(0)
        assert harness.read(1) == LoadedState(0, None, 1, 0, ROWS)
        assert harness.read(1, harness.nodes[2]) == LoadedState(0, None, 1, 0, ROWS)

    def test_a_question_waits_for_a_new_leader(self) -> None:
        harness = SharesHarness()
        harness.initialize()
        leaderships = harness.states.leaderships
        assert leaderships is not None
        leaderships.leave([Leader(-1, 1)] * PARTITIONS)
        assert harness.read() is None
        answers: list[Any] = []
        harness.states.read(ReadState(harness.key, 0), answers.append)
        leaderships.take(harness.leaders)
        harness.clock.advance(RETRY_MS[0])
        assert answers == [LoadedState(0, None, 1, 0, [])]

    def test_nodes_of_other_processes_are_asked(self) -> None:
        class Peers:
            def leads(self, topic: str, index: int) -> int | None:
                assert topic == SHARE_STATE_TOPIC
                return 7 if index < PARTITIONS else None

            def ask_state(self, node_id: int, request: Any, respond: Any) -> None:
                asked.append((node_id, request))
                respond(OK)

        asked: list[Any] = []
        harness = SharesHarness()
        harness.initialize()
        harness.states._place = harness.states._place._replace(peers=Peers())
        assert harness.write(*ROWS) == OK
        assert asked[0][0] == 7

    def test_a_dead_node_keeps_nothing(self) -> None:
        harness = SharesHarness()
        harness.states.died()
        harness.initialize()
        harness.states.died()
        assert harness.states.routing.shards[0].runtime.core is None

    def test_a_fault_is_logged(self, capsys: pytest.CaptureFixture[str]) -> None:
        SharesHarness().states.fault(ValueError("a bug"))
        assert "the share coordinator could not begin" in capsys.readouterr().out


def test_an_error_of_the_core_stays_when_the_log_fails() -> None:
    fenced = StateResponse(ErrorCode.FENCED_STATE_EPOCH, "old")
    assert with_error(fenced, ErrorCode.NOT_COORDINATOR) is fenced
    assert with_error(LoadedState(), ErrorCode.NOT_COORDINATOR) == LoadedState(
        ErrorCode.NOT_COORDINATOR, "This is not the correct coordinator."
    )
    assert isinstance(with_error(LogPosition(3), ErrorCode.NOT_COORDINATOR), StateResponse)


def test_the_time_of_all_attempts_is_that_of_a_move() -> None:
    assert 5_000 < sum(share_states.RETRY_MS) < 10_000
