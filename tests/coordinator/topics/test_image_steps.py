"""The image of very many topics is copied in steps, and is that of one moment."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log import MemoryStorage
from muster.coordinator.system.jobs import Job, at_once
from muster.coordinator.topics import catalogue, metadata_state
from muster.coordinator.topics.cluster_image import Leader
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.metadata_state import MetadataState
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord
from tests.coordinator.topics.support import add_topic, make_topics
from tests.support.opcodes import instructions


def topic_id(number: int) -> bytes:
    return number.to_bytes(16)


def add(state: MetadataState, number: int) -> None:
    state.evolve(TopicRecord(f"t{number}", topic_id(number)))
    state.evolve(PartitionRecord(0, topic_id(number), [1], [1], leader=1, leader_epoch=0, partition_epoch=0))
    state.version += 2


def finish(job: Job[TopicsImage]) -> TopicsImage:
    return at_once(job)


def names(image: TopicsImage) -> list[str]:
    assert [one.name for one in image.by_id.values()] == [*image.by_name]
    assert [one.topic_id for one in image.by_name.values()] == [*image.by_id]
    return [*image.by_name]


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> MetadataState:
    monkeypatch.setattr(metadata_state, "COPIED_AT_ONCE", 3)
    monkeypatch.setattr(catalogue, "COPIED_AT_ONCE", 3)
    state = MetadataState()
    for number in range(10):
        add(state, number)
    return state


def test_changes_between_the_steps_are_in_the_next_image(state: MetadataState) -> None:
    job, version = state.imaging(), state.version
    assert [next(job) for _ in range(3)] == [None] * 3
    add(state, 10)
    state.evolve(RemoveTopicRecord(topic_id(1)))
    image = finish(job)
    assert names(image) == [f"t{number}" for number in range(10)]
    assert (image.version, dict(image.deleted)) == (version, {})
    later = finish(state.imaging())
    assert names(later) == ["t0", *[f"t{number}" for number in range(2, 11)]]
    assert (later.version, dict(later.deleted)) == (version + 2, {topic_id(1): "t1"})
    assert names(image) == [f"t{number}" for number in range(10)]
    assert later.gone_since(image) == {topic_id(1): "t1"}
    add(state, 11)
    newest = finish(state.imaging())
    assert newest.gone_since(later) == {}
    assert newest.gone_since(image) == {topic_id(1): "t1"}


def test_an_image_that_was_begun_earlier_ends_as_the_newest(state: MetadataState) -> None:
    first = state.imaging()
    next(first)
    add(state, 10)
    second = finish(state.imaging())
    assert names(finish(first)) == names(second) == [f"t{number}" for number in range(11)]


def test_groups_get_a_large_image_after_its_last_step(state: MetadataState) -> None:
    topics = make_topics(MemoryStorage())
    for number in range(5):
        add_topic(topics, f"t{number}")
    jobs: list[Any] = []
    topics.logs.run_job = jobs.append
    before, seen = topics.image, list[object]()
    add_topic(topics, "new")
    topics.when_durable(seen.append)
    assert (topics.image, seen, "new" in topics.by_name) == (before, [], True)
    (job,) = jobs
    at_once(job)
    assert seen == [None]
    assert names(topics.image) == [*before.by_name, "new"]


def test_equal_partitions_and_leaders_of_a_topic_are_one_object() -> None:
    topics = make_topics(MemoryStorage())
    at_once(topics.creating(NewTopic("t", b"i" * 16, 50, 1)))
    assert len({id(one) for one in topics.state.topics["t"].partitions}) == 1
    assert {id(one) for one in topics.open.leaders["t"]} == {id(topics.open.leaders["t"][0])}
    assert topics.open.leaders["t"] == (Leader(1, 0),) * 50
    at_once(topics.growing("t", 60, None))
    assert [one.index for one in topics.by_name["t"].partitions if one is not None] == [*range(60)]
    assert topics.image.by_name["t"].partitions == 60


def test_the_longest_step_of_a_creation_does_little_for_each_partition() -> None:
    """10,000 partitions took 4,000,000 instructions in one piece: 40 ms, and more with slow memory."""
    topics, count = make_topics(MemoryStorage()), 500
    job = topics.creating(NewTopic("t", b"i" * 16, count, 1))
    done, longest = list[object](), 0

    def step() -> None:
        try:
            next(job)
        except StopIteration as end:
            done.append(end.value)

    while not done:
        longest = max(longest, instructions(step))
    assert done == [(count, 1)]
    assert longest <= 200 * count
