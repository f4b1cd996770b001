from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import batches
from muster.coordinator.runtime.share_partitions.dead_letters import DeadLetterQueues
from tests.coordinator.api.share.serving import GROUP, Serving, acquired, serve_shares
from tests.coordinator.topics.support import add_topic

T = ("t", 0)
ALLOWED = {"errors.deadletterqueue.group.enable": "true"}


class Queue:
    """A group with a real dead-letter queue. `configs`: of the group."""

    def __init__(self, configs: dict[str, str] | None = None, **broker: str) -> None:
        self.serving = serving = Serving(None, **broker)
        node = serving.node
        letters = DeadLetterQueues(node.topics, node.clock, node.config, node.run_behind)
        serving.shares = serve_shares(node, serving.persister, letters)
        own = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dlq.t", **(configs or {})}
        serving.shares.configured(GROUP, own)
        add_topic(node.topics, "t")

    def reject(self, count: int = 1) -> None:
        """Append this many records, and reject them."""
        serving = self.serving
        serving.append("t", count)
        assert acquired(serving.fetch("m", 0, T)) == [(0, count - 1, 1)]
        serving.acknowledge("m", 1, {T: [(0, count - 1, [3])]})

    def reject_alone(self, count: int) -> None:
        """Append records one by one, and reject each of them by itself."""
        serving = self.serving
        for _ in range(count):
            serving.append("t", 1)
        serving.fetch("m", 0, T, batch_size=1)
        serving.acknowledge("m", 1, {T: [(one, one, [3]) for one in range(count)]})

    def run(self) -> None:
        """Let the queue work."""
        for _ in range(20):
            self.serving.clock.advance(1)

    def letters(self, name: str = "dlq.t", index: int = 0) -> list[Any]:
        """The records in the queue."""
        partition = self.serving.node.topics.open.partition(name, index)
        if partition is None:
            return []
        data = b"".join(partition.log.replay())
        return [record for _, records in batches.read(data) for record in records]


def header_texts(record: Any) -> dict[str, str]:
    return {name.removeprefix("__dlq.errors."): value.decode() for name, value in record.headers}


def test_a_rejected_record_is_in_the_queue_before_it_is_archived() -> None:
    queue = Queue()
    add_topic(queue.serving.node.topics, "dlq.t", 2, errors_deadletterqueue_group_enable="true")
    queue.reject(2)
    assert queue.serving.share().core.start_offset == 0
    queue.run()
    assert [header_texts(one) for one in queue.letters()] == [
        {
            "topic": "t",
            "partition": "0",
            "offset": str(offset),
            "group": GROUP,
            "delivery.count": "1",
            "message": "Offset rejected by client.",
        }
        for offset in (0, 1)
    ]
    assert [(one.key, one.value) for one in queue.letters()] == [(None, None)] * 2
    assert queue.serving.share().core.start_offset == 2
    assert [row.state for row in queue.serving.persister.writes[-1].rows] == [4]


def test_a_letter_has_a_copy_of_its_record_if_the_group_wants_it() -> None:
    queue = Queue({"errors.deadletterqueue.copy.record.enable": "true"})
    add_topic(queue.serving.node.topics, "dlq.t", errors_deadletterqueue_group_enable="true")
    queue.reject(3)
    queue.run()
    assert [(one.key, one.value) for one in queue.letters()] == [(b"k", b"0"), (b"k", b"1"), (b"k", b"2")]


def test_many_letters_are_written_in_batches_that_the_queue_allows() -> None:
    queue = Queue({"errors.deadletterqueue.copy.record.enable": "true"})
    add_topic(queue.serving.node.topics, "dlq.t", errors_deadletterqueue_group_enable="true", max_message_bytes="1000")
    queue.reject(20)
    queue.run()
    assert [one.value for one in queue.letters()] == [b"%d" % number for number in range(20)]
    partition = queue.serving.node.topics.open.partition("dlq.t", 0)
    assert partition is not None
    assert len([*partition.log.headers()]) > 1


def test_a_record_that_was_delivered_too_often_says_so() -> None:
    queue = Queue({"share.delivery.count.limit": "2"}, errors_deadletterqueue_auto_create_topics_enable="true")
    serving = queue.serving
    serving.append("t", 1)
    serving.fetch("m", 0, T)
    for epoch, count in ((1, 2), (3, None)):
        serving.acknowledge("m", epoch, {T: [(0, 0, [2])]})
        if count is not None:
            assert acquired(serving.fetch("m", epoch + 1)) == [(0, 0, count)]
    queue.run()
    (letter,) = queue.letters()
    assert header_texts(letter)["message"] == "Offset delivery count exceeded the threshold."
    assert header_texts(letter)["delivery.count"] == "2"
    configs = serving.node.topics.state.topic_configs("dlq.t")
    assert configs == {**ALLOWED, "message.timestamp.type": "CreateTime"}
    assert serving.share().core.start_offset == 1


@pytest.mark.parametrize(
    ("name", "broker", "text"),
    [
        ("dlq.t", {}, "DLQ topic does not exist and auto create is disabled on cluster for share group"),
        ("__dlq", {}, "cannot start with __, topic: __dlq."),
        ("t", {}, "DLQ is not enabled on configured DLQ topic for share group: workers, topic: t."),
        (
            "other",
            {"errors_deadletterqueue_auto_create_topics_enable": "true"},
            "does not comply with the DLQ topic prefix in share group: workers, topic: other, prefix: dlq..",
        ),
    ],
)
def test_records_are_archived_without_a_queue(name: str, broker: dict[str, str], text: str) -> None:
    queue = Queue({"errors.deadletterqueue.topic.name": name}, **broker)
    with capture_logs() as lines:
        queue.reject()
        queue.run()
    assert text in lines[-1]["reason"]
    assert queue.serving.share().core.start_offset == 1


def test_letters_go_to_the_partition_of_their_records_number() -> None:
    queue = Queue()
    serving = queue.serving
    add_topic(serving.node.topics, "dlq.t", 2, errors_deadletterqueue_group_enable="true")
    add_topic(serving.node.topics, "u", 4)
    serving.append("u", 1, index=3)
    serving.fetch("m", 0, ("u", 3))
    serving.acknowledge("m", 1, {("u", 3): [(0, 0, [3])]})
    queue.run()
    assert [header_texts(one)["partition"] for one in queue.letters(index=1)] == ["3"]


def test_letters_that_were_not_archived_are_queued_again_after_a_load() -> None:
    queue = Queue()
    serving = queue.serving
    add_topic(serving.node.topics, "dlq.t", errors_deadletterqueue_group_enable="true")
    queue.reject()
    serving.share().close()  # before the queue has written
    queue.run()
    assert len(queue.letters()) == 1
    serving.fetch("m", 2)
    queue.run()
    assert len(queue.letters()) == 2
    assert serving.share().core.start_offset == 1


def test_letters_of_records_that_were_produced_alone_are_written_together() -> None:
    queue = Queue({"errors.deadletterqueue.copy.record.enable": "true"})
    add_topic(queue.serving.node.topics, "dlq.t", 1, errors_deadletterqueue_group_enable="true")
    queue.reject_alone(40)
    queue.run()
    assert [(header_texts(one)["offset"], bytes(one.value)) for one in queue.letters()] == [
        (str(offset), b"0") for offset in range(40)
    ]
    partition = queue.serving.node.topics.open.partition("dlq.t", 0)
    assert partition is not None
    assert len([*batches.read(b"".join(partition.log.replay()))]) == 1
    assert queue.serving.share().core.start_offset == 40


def test_letters_that_cannot_be_written_have_one_line_of_the_log() -> None:
    queue = Queue()
    add_topic(queue.serving.node.topics, "dlq.t")
    with capture_logs() as lines:
        queue.reject_alone(40)
        queue.run()
    assert [(one["first_offset"], one["last_offset"]) for one in lines if one["log_level"] == "error"] == [(0, 39)]
    assert queue.serving.share().core.start_offset == 40
