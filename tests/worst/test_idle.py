"""What a node does by itself while nobody asks anything. It may have many partitions, and never looks at all of them in
one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from muster.coordinator.log.errors import DirectoryGone
from muster.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from muster.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.worst.meter import Meter
from tests.worst.node import WorstNode, without_collections

PARTITIONS = 1_000
LIMIT = 20_000
"""Instructions in one piece: half a millisecond. A look at all partitions takes several times as many."""
OFTEN = {
    "log_retention_check_interval_ms": "5000",
    "log_flush_offset_checkpoint_interval_ms": "6000",
    "log_cleaner_backoff_ms": "7000",
    "producer_id_expiration_check_interval_ms": "8000",
}
EACH_MS = 10_000
"""The interval in which each of these tasks runs."""


@pytest.fixture(scope="module")
def node() -> Iterator[WorstNode]:
    """A node with many partitions, half of them compacted."""
    node = WorstNode(Meter(), **OFTEN)
    compacted = [CreatableTopicConfig("cleanup.policy", "compact")]
    for place, configs in enumerate(([], compacted)):
        topics = [CreatableTopic(f"t{place}-{i}", 10, 1, configs=configs) for i in range(PARTITIONS // 20)]
        assert {row.error_code for row in node.ask(CreateTopicsRequest(topics, 60_000)).topics} == {0}
    with without_collections():
        yield node
    node.close()


def longest(node: WorstNode, ms: int, act: Callable[[], object] = lambda: None) -> int:
    """The longest piece of work in this time, from `act` on."""
    node.meter.reset()
    with node.meter.measuring():
        node.process.does(act)
        node.world.run(lambda: False, ms)
    assert node.meter.worst > 0
    return node.meter.worst


def test_periodic_work_over_many_partitions_is_divided_into_steps(node: WorstNode) -> None:
    saved = node.process.storage.load("recovery-point-offset-checkpoint")
    assert saved is None or saved.count(b"\nt") < PARTITIONS
    worst = longest(node, EACH_MS)
    saved = node.process.storage.load("recovery-point-offset-checkpoint")
    assert saved is not None
    assert saved.count(b"\nt") == PARTITIONS
    assert worst <= LIMIT, node.meter.where


def test_taking_many_logs_offline_is_divided_into_steps(node: WorstNode) -> None:
    logs = node.process.server.logs
    node.process.server._data._stop_watching()  # or else it finds soon that the directory is there
    worst = longest(node, 20, lambda: logs.directory_checked(DirectoryGone(2, "it was removed")))
    assert all(log.failure is not None for log in logs.logs())
    assert worst <= LIMIT, node.meter.where
    worst = longest(node, 20, lambda: logs.directory_checked(None))
    assert all(log.failure is None for log in logs.logs())
    assert worst <= LIMIT, node.meter.where


def test_failed_logs_are_opened_again_one_at_a_time(node: WorstNode) -> None:
    logs = node.process.server.logs
    for log in logs.logs():
        if log.topic.startswith("t0-"):
            log.go_offline("path", OSError(28, "full"))
    worst = longest(node, EACH_MS)
    assert {log.failure for log in logs.logs()} == {None}
    assert worst <= LIMIT, node.meter.where


def test_deleting_topics_does_not_write_the_checkpoint_of_all_partitions(node: WorstNode) -> None:
    names = [DeleteTopicState(f"t1-{i}") for i in range(PARTITIONS // 20)]
    worst = node.measure([(DeleteTopicsRequest(names, timeout_ms=1_000), 6)])
    assert worst <= LIMIT, node.meter.where
