from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.coordinator.api.configs.resources import Kind
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log import MemoryStorage
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics import catalogue
from muster.coordinator.topics.configs import CONFIGURED_AT_ONCE
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_state import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    MetadataState,
)
from muster.coordinator.topics.names import (
    EVENTS_OF,
    GROUP_EVENTS_TOPIC,
    GROUP_OFFSETS_TOPIC,
    METADATA_TOPIC,
    TRANSACTION_EVENTS_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from muster.coordinator.topics.topics import Topics
from muster.protocol.errors import ErrorCode
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce, started_with

NOW = Now(0, 1_700_000_000_000)


def facts(state: MetadataState) -> dict[str, Any]:
    return {
        "topics": {name: (topic.topic_id, topic.partitions) for name, topic in state.topics.items()},
        "by id": {topic_id: topic.name for topic_id, topic in state.topics_by_id.items()},
        "configs": state.configs,
        "producer ids": state.next_producer_id,
        "features": state.features,
        "version": state.version,
        "collisions": [state.colliding_topic(name) for name in ("a_b", "a.b")],
    }


def restarted(topics: Topics) -> Topics:
    topics.logs.close(clean=True)
    storage = topics.logs.storage
    assert isinstance(storage, MemoryStorage)
    return make_topics(storage)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "delete", "grow", "config", "unset", "producer id"]),
        st.sampled_from(["a.b", "a_b", "c", "__x"]),
        st.integers(1, 4),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_a_replay_of_the_metadata_log_gives_the_live_state(steps: list[tuple[str, str, int]]) -> None:
    topics = make_topics()
    for what, name, number in steps:
        topic = topics.by_name.get(name)
        try:
            if what == "create":
                at_once(
                    topics.creating(
                        NewTopic(name, topics.draw_uuid(), number, 1, configs={"retention.ms": str(number)})
                    )
                )
            elif what == "producer id":
                at_once(topics.drawing_producer_id())
            elif what == "grow":
                at_once(topics.growing(name, number, None))
            elif topic is not None and what == "delete":
                at_once(topics.deleting(topic))
            elif topic is not None:
                at_once(
                    topics.setting_configs(
                        TOPIC_RESOURCE, name, {"retention.ms": None if what == "unset" else str(number)}
                    )
                )
        except ApiError:
            continue
    after = restarted(topics)
    # a start is recorded, and changes only the leaders' epochs
    before = {**facts(topics.state), "version": topics.state.version + 1}
    assert facts(after.state) == before
    assert {n: t.partitions for n, t in after.image.by_name.items()} == {
        n: t.partitions for n, t in topics.image.by_name.items()
    }


def test_each_start_begins_a_leader_epoch() -> None:
    topics = make_topics()
    add_topic(topics, "first", 2)
    for start in range(1, 4):
        topics = restarted(topics)
        at_once(topics.creating(NewTopic(f"after-{start}", b"%016d" % start, 1, 1)))
        first, latest = topics.by_name["first"], topics.by_name[f"after-{start}"]
        # as on Kafka 4.3, where a node that stops and returns changes the leader twice
        assert [first.leader_epoch(0), first.leader_epoch(1), latest.leader_epoch(0)] == [2 * start, 2 * start, 0]
        assert topics.image.by_name["first"].leader_epochs == (2 * start, 2 * start)


def test_the_ends_of_leader_epochs_are_known_before_and_after_the_first_record() -> None:
    topics = make_topics()
    produce(add_topic(topics, "t", 2), batch(b"a", b"b"), NOW)
    topics = restarted(restarted(topics))
    held, empty = (topics.open.partition("t", index) for index in (0, 1))
    assert held is not None
    assert empty is not None
    # as Kafka 4.3 answers after two starts
    assert [held.epoch_end_offset(epoch) for epoch in range(6)] == [*[(0, 2)] * 4, (4, 2), (-1, -1)]
    assert [empty.epoch_end_offset(epoch) for epoch in range(6)] == [*[(epoch, 0) for epoch in range(5)], (-1, -1)]
    assert [held.epoch_for_offset(offset) for offset in range(3)] == [0, 0, 4]
    assert empty.epoch_for_offset(0) == 4
    # -1 means no epoch; other negative numbers are epochs before all others
    assert (held.epoch_end_offset(-1), empty.epoch_end_offset(-1)) == ((-1, -1), (-1, -1))
    assert (held.epoch_end_offset(-5), empty.epoch_end_offset(-5)) == ((-5, 0), (-5, 0))
    produce(held, batch(b"c"), NOW)
    assert [held.epoch_end_offset(epoch) for epoch in range(6)] == [*[(0, 2)] * 4, (4, 3), (-1, -1)]
    assert [held.epoch_for_offset(offset) for offset in range(4)] == [0, 0, 4, 4]


def test_records_in_place_of_lost_ones_have_another_leader_epoch() -> None:
    # a power cut took two records, and the metadata record of the start that wrote them
    topics = make_topics()
    partition = add_topic(topics, "t")
    produce(partition, batch(b"a"), NOW)
    topics = restarted(topics)
    partition = topics.by_name["t"].existing(0)
    produce(partition, batch(b"b"), NOW)
    produce(partition, batch(b"lost"), NOW)
    lost_epoch = partition.leader_epoch
    partition.log.truncate(2)
    topics.metadata_log.log.truncate(topics.state.version - 1)
    topics = restarted(topics)
    again = topics.by_name["t"].existing(0)
    assert again.leader_epoch > lost_epoch
    produce(again, batch(b"new"), NOW)
    assert again.epoch_end_offset(lost_epoch) == (lost_epoch, 2)


def test_subscribers_get_each_new_image() -> None:
    topics = make_topics()
    images: list[TopicsImage] = []
    topics.subscribe(images.append)
    add_topic(topics, "a", 2)
    at_once(topics.growing("a", 3, None))
    at_once(topics.deleting(topics.by_name["a"]))
    at_once(topics.drawing_producer_id())
    assert [{name: topic.partitions for name, topic in image.by_name.items()} for image in images] == [
        {"a": 2},
        {"a": 3},
        {},
    ]
    assert [image.version for image in images] == sorted({image.version for image in images})
    assert images[0].by_id[images[0].by_name["a"].topic_id].name == "a"


def test_records_survive_a_restart_but_not_their_topic() -> None:
    topics = make_topics()
    produce(add_topic(topics, "kept"), batch(b"1"), NOW)
    produce(add_topic(topics, "gone"), batch(b"2"), NOW)
    at_once(topics.deleting(topics.by_name["gone"]))
    add_topic(topics, "gone")
    after = restarted(topics)
    kept, gone = after.open.partition("kept", 0), after.open.partition("gone", 0)
    assert kept is not None
    assert gone is not None
    assert (kept.log.end_offset, gone.log.end_offset) == (1, 0)


def test_validate_only_changes_nothing() -> None:
    topics = make_topics()
    assert at_once(topics.creating(NewTopic("t", topics.draw_uuid(), 3), validate_only=True)) == (3, 1)
    add_topic(topics, "u")
    at_once(topics.growing("u", 5, None, validate_only=True))
    assert list(topics.by_name) == ["u"]
    assert len(topics.by_name["u"].partitions) == 1


def test_configs_reach_the_logs() -> None:
    topics = make_topics(live=started_with({"log.retention.ms": "77"}))
    partition = add_topic(topics, "t", max_message_bytes="1000")
    assert (partition.log.config.max_message_bytes, partition.log.config.retention_ms) == (1000, 77)
    at_once(topics.setting_configs(TOPIC_RESOURCE, "t", {"retention.ms": "5", "max.message.bytes": None}))
    assert (partition.log.config.max_message_bytes, partition.log.config.retention_ms) == (1_048_588, 5)


def test_broker_configs_reach_the_logs_at_once_and_after_a_restart() -> None:
    storage = MemoryStorage()
    topics = make_topics(storage, live=started_with({"log.retention.ms": "77", "message.max.bytes": "200"}))
    reported: list[int] = []
    topics.dynamic_configs.subscribe(lambda: reported.append(topics.configs.broker.value("message.max.bytes")))
    partition = add_topic(topics, "t", retention_ms="5")
    other = add_topic(topics, "u")
    at_once(topics.setting_configs(BROKER_RESOURCE, "", {"log.retention.ms": "300", "message.max.bytes": "1000"}))
    at_once(topics.setting_configs(BROKER_RESOURCE, "1", {"message.max.bytes": " 2000 "}))
    at_once(topics.setting_configs(BROKER_RESOURCE, "2", {"message.max.bytes": "3000"}))  # another broker's partitions
    for log in (partition.log, other.log):
        assert log.config.max_message_bytes == 2000
    assert (partition.log.config.retention_ms, other.log.config.retention_ms) == (5, 300)
    assert reported == [1000, 2000]
    topics.logs.close(clean=True)
    again = make_topics(storage, live=started_with({"log.retention.ms": "77"}))
    found = again.open.partition("u", 0)
    assert found is not None
    assert (found.log.config.max_message_bytes, found.log.config.retention_ms) == (2000, 300)
    at_once(again.setting_configs(BROKER_RESOURCE, "1", {"message.max.bytes": None}))
    at_once(again.setting_configs(BROKER_RESOURCE, "", {"message.max.bytes": None, "log.retention.ms": None}))
    assert (found.log.config.max_message_bytes, found.log.config.retention_ms) == (1_048_588, 77)


def test_logs_of_many_topics_get_their_configs_over_several_iterations() -> None:
    clock = ManualClock()
    topics = make_topics(clock=clock)
    partitions = [add_topic(topics, f"t{n}") for n in range(CONFIGURED_AT_ONCE + 1)]
    at_once(topics.setting_configs(BROKER_RESOURCE, "", {"message.max.bytes": "1000"}))
    done = [partition.log.config.max_message_bytes == 1000 for partition in partitions]
    assert done.count(False) == 1
    clock.advance(1)
    assert all(partition.log.config.max_message_bytes == 1000 for partition in partitions)


def test_an_unreadable_config_value_is_ignored() -> None:
    topics = make_topics()
    at_once(topics.setting_configs(BROKER_RESOURCE, "", {"message.max.bytes": "many", "node.id": "7", "x": "y"}))
    assert add_topic(topics, "t").log.config.max_message_bytes == 1_048_588
    assert topics.configs.broker.text("node.id") != "7"


def test_groups_and_client_metrics_keep_their_configs() -> None:
    storage = MemoryStorage()
    topics = make_topics(storage)
    at_once(topics.setting_configs(Kind.GROUP, "g", {"consumer.session.timeout.ms": "46000"}))
    at_once(topics.setting_configs(Kind.CLIENT_METRICS, "m", {"interval.ms": "100"}))
    topics.logs.close(clean=True)
    state = make_topics(storage).state
    assert state.resource_configs(Kind.GROUP, "g") == {"consumer.session.timeout.ms": "46000"}
    assert (state.resources(Kind.GROUP), state.resources(Kind.CLIENT_METRICS)) == (["g"], ["m"])


def test_a_wrong_config_is_refused_with_kafkas_sentence() -> None:
    with pytest.raises(ApiError) as caught:
        add_topic(make_topics(), "t", retention_ms="x")
    assert caught.value.error_code == ErrorCode.INVALID_CONFIG
    assert caught.value.message == "Invalid value x for configuration retention.ms: Not a number of type LONG"


def test_the_offsets_topic_is_created_as_by_kafka() -> None:
    topics = make_topics(offsets_topic_num_partitions=3)
    topic = at_once(topics.ensuring(GROUP_OFFSETS_TOPIC))
    assert (len(topic.partitions), topic.internal) == (3, True)
    assert topics.state.topic_configs(GROUP_OFFSETS_TOPIC) == {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
    }
    assert at_once(topics.ensuring(GROUP_OFFSETS_TOPIC)) is topic


def test_only_the_coordinators_topics_of_state_are_compacted() -> None:
    topics = make_topics(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=2)
    names = [GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, *EVENTS_OF]
    found = {
        name: [one.log.config.compacts for one in at_once(topics.ensuring(name)).partitions if one] for name in names
    }
    compacted = {GROUP_OFFSETS_TOPIC: [True], TRANSACTION_STATE_TOPIC: [True, True]}
    assert found == compacted | {GROUP_EVENTS_TOPIC: [False], TRANSACTION_EVENTS_TOPIC: [False, False]}


def test_an_event_topic_has_as_many_partitions_as_its_coordinator() -> None:
    topics = make_topics(transaction_state_log_num_partitions=2, muster_transaction_events_retention_ms=7)
    at_once(topics.ensuring(TRANSACTION_STATE_TOPIC))
    topics.settings = replace(topics.settings, transaction_state_log_num_partitions=5)
    assert len(at_once(topics.ensuring(TRANSACTION_EVENTS_TOPIC)).partitions) == 2
    assert topics.state.topic_configs(TRANSACTION_EVENTS_TOPIC)["retention.ms"] == "7"


def test_producer_ids_are_never_assigned_twice() -> None:
    topics = make_topics()
    before = [at_once(topics.drawing_producer_id()) for _ in range(1001)]
    after = restarted(topics)
    assert len({*before, at_once(after.drawing_producer_id()), at_once(after.drawing_producer_id())}) == 1003


def test_the_metadata_log_is_not_listed_as_a_topic() -> None:
    assert METADATA_TOPIC not in restarted(make_topics()).by_name


# ---- large changes, in steps


def drive(job: Any, steps: int) -> Any:
    """Run `steps` steps of a job."""
    for _ in range(steps):
        next(job)
    return job


def test_a_topic_of_many_partitions_is_created_in_steps_and_appears_at_once() -> None:
    topics = make_topics()
    job = drive(topics.creating(NewTopic("t", topics.draw_uuid(), 500, 1)), 300)
    assert "t" not in topics.by_name
    assert "t" not in topics.state.topics
    with pytest.raises(StopIteration) as end:
        drive(job, 1_000)
    assert end.value.value == (500, 1)
    assert len(topics.by_name["t"].partitions) == 500
    assert topics.image.by_name["t"].partitions == 500


def test_changes_of_topics_wait_for_each_other() -> None:
    topics = make_topics()
    first = drive(topics.creating(NewTopic("t", topics.draw_uuid(), 100, 1)), 50)
    second = topics.creating(NewTopic("t", topics.draw_uuid(), 1, 1))
    turn = next(second)
    assert turn is not None
    assert not turn.is_there
    with pytest.raises(StopIteration):
        drive(first, 1_000)
    assert turn.is_there
    with pytest.raises(ApiError) as refused:
        second.send(None)
    assert refused.value.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    old = topics.by_name["t"]
    growing = drive(topics.growing("t", 200, None), 20)
    deleting = topics.deleting(old)
    assert not next(deleting).is_there
    with pytest.raises(StopIteration):
        drive(growing, 1_000)
    assert len(old.partitions) == 200
    again = topics.deleting(old)
    assert not next(again).is_there
    with pytest.raises(StopIteration):
        drive(deleting, 1_000)
    with pytest.raises(ApiError):
        again.send(None)  # another request has deleted it
    assert topics.by_name == {}


def test_a_topic_of_many_partitions_is_deleted_in_steps_and_disappears_at_once() -> None:
    topics = make_topics()
    add_topic(topics, "t", 200)
    partitions = list(topics.by_name["t"].partitions)
    job = drive(topics.deleting(topics.by_name["t"]), 1)
    assert "t" not in topics.by_name
    assert 0 < sum(partition is not None and partition.closed for partition in partitions) < 200
    with pytest.raises(StopIteration):
        drive(job, 1_000)
    assert all(partition is not None and partition.closed for partition in partitions)
    assert list(topics.image.by_name) == []
    add_topic(topics, "t", 3)
    assert topics.image.by_name["t"].partitions == 3


def test_every_new_image_has_exactly_the_existing_topics() -> None:
    topics = make_topics()
    for name in ("a", "b", "c"):
        add_topic(topics, name, 2)
    before = topics.image
    a = topics.by_name["a"].topic_id
    at_once(topics.deleting(topics.by_name["a"]))
    add_topic(topics, "a", 5)
    at_once(topics.growing("b", 3, None))
    image = topics.image
    assert {name: one.partitions for name, one in image.by_name.items()} == {"b": 3, "c": 2, "a": 5}
    assert {one.name for one in image.by_id.values()} == {"a", "b", "c"}
    assert image.by_name["c"] is before.by_name["c"]
    assert image.gone_since(before) == {a: "a"}
    assert image.gone_since(image) == {}
    assert {name: one.partitions for name, one in before.by_name.items()} == {"a": 2, "b": 2, "c": 2}


def test_folders_of_a_large_topic_are_removed_over_several_iterations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In memory, 10,000 folders in one iteration took 60 ms."""
    monkeypatch.setattr(catalogue, "REMOVED_AT_ONCE", 4)
    storage, clock = MemoryStorage(), ManualClock()
    topics = make_topics(storage, clock)
    add_topic(topics, "large", 10)

    def left() -> int:
        return sum(entry.name.startswith("large") for entry in storage.entries(""))

    at_once(topics.deleting(topics.by_name["large"]))
    assert left() == 6
    clock.advance(0)
    assert left() == 0
