"""Recipes for tests of share consumers (queues): copy what you need. docs/testing.md explains the fixtures."""

import contextlib

import confluent_kafka
import pytest
from confluent_kafka import AcknowledgeType

from muster.testing import CannotBeDone

ACCEPT = AcknowledgeType.ACCEPT


@contextlib.contextmanager
def working(muster, topic, group, **settings):
    """A worker that acknowledges each record by itself."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    worker = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": muster.bootstrap_servers,
            "group.id": group.id,
            "share.acknowledgement.mode": "explicit",
            **named,
        }
    )
    worker.subscribe([topic.name])
    try:
        yield worker
    finally:
        worker.close()


def take(worker, count):
    """The next records of a worker: so many, or more."""
    found = []
    while len(found) < count:
        found += [one for one in worker.poll(0.2) if one.error() is None]
    return found


@pytest.mark.muster(partitions=1, properties={"errors.deadletterqueue.auto.create.topics.enable": True})
def test_a_poison_message_goes_to_the_dead_letter_queue(muster, muster_topic, muster_group):
    muster_group.configure(
        share_auto_offset_reset="earliest",
        share_delivery_count_limit=2,
        errors_deadletterqueue_topic_name="dlq.work",
        errors_deadletterqueue_copy_record_enable=True,
    )
    muster_topic.produce("poison")
    with working(muster, muster_topic, muster_group) as worker:
        for deliveries in (1, 2):
            (poison,) = take(worker, 1)
            assert poison.delivery_count() == deliveries
            # the worker hangs until its lock is over: 30 s of virtual time, some milliseconds of the test
            muster.time.advance(30_000)
            worker.acknowledge(poison, ACCEPT)  # too late: it is refused
        muster_group.wait_dead_lettered(1)
    (letter,) = muster.topic("dlq.work").records()
    assert letter.text == "poison"
    assert dict(letter.headers)["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."


@pytest.mark.muster(partitions=1)
def test_a_slow_worker_loses_its_lock(muster, muster_topic, muster_group):
    muster_group.configure(share_auto_offset_reset="earliest")
    muster_topic.produce("work")
    with working(muster, muster_topic, muster_group, client_id="slow") as slow:
        (record,) = take(slow, 1)
        muster_group.expire_locks("slow")
        muster_group.wait_released(1)
        with working(muster, muster_topic, muster_group, client_id="quick") as quick:
            (again,) = take(quick, 1)
            assert (again.value(), again.delivery_count()) == (b"work", 2)
            slow.acknowledge(record, ACCEPT)
            (error,) = slow.commit_sync(10).values()
            assert error.args[0].name() == "INVALID_RECORD_STATE"
            quick.acknowledge(again, ACCEPT)
            quick.commit_sync(10)
            muster_group.wait_acknowledged(muster_topic.name)
    assert any("until the lock was over" in line for line in muster_group.history())


@pytest.mark.muster(partitions=1)
def test_two_workers_share_one_partition(muster, muster_topic, muster_group):
    muster_group.configure(share_auto_offset_reset="earliest")
    with (
        working(muster, muster_topic, muster_group, client_id="one", max_poll_records=1) as one,
        working(muster, muster_topic, muster_group, client_id="two", max_poll_records=1) as two,
    ):
        muster_topic.produce("first")
        mine = take(one, 1)
        muster_topic.produce("second")
        yours = take(two, 1)
        view = muster_group.wait_acquired(2)
        assert sorted(view.records[muster_topic.name][0].held.values()) == [1, 1]
        for worker, records in ((one, mine), (two, yours)):
            for record in records:
                worker.acknowledge(record, ACCEPT)
            worker.commit_sync(10)
        muster_group.wait_acknowledged(muster_topic.name)
    assert {record.value() for record in (*mine, *yours)} == {b"first", b"second"}


@pytest.mark.muster(partitions=1)
def test_what_accept_promises(muster, muster_topic, muster_group):
    """A record is never delivered again once its acceptance is confirmed. Without a confirmation it may be."""
    muster_group.configure(share_auto_offset_reset="earliest")
    with working(muster, muster_topic, muster_group) as worker:
        muster_topic.produce("confirmed")
        (confirmed,) = take(worker, 1)
        worker.acknowledge(confirmed, ACCEPT)
        assert list(worker.commit_sync(10).values()) == [None]
        muster_topic.produce("too late")
        (late,) = take(worker, 1)
        muster_group.deliver_again(muster_topic.name, 0, late.offset())  # its lock is over before it is accepted
        worker.acknowledge(late, ACCEPT)
        (error,) = worker.commit_sync(10).values()
        assert error.args[0].name() == "INVALID_RECORD_STATE"
        (again,) = take(worker, 1)
        assert (again.value(), again.delivery_count()) == (b"too late", 2)
        worker.acknowledge(again, ACCEPT)
        worker.commit_sync(10)
        view = muster_group.wait_acknowledged(muster_topic.name)
        assert view.records[muster_topic.name][0].accepted == 2
        with pytest.raises(CannotBeDone, match="the group is done with record 0"):
            muster_group.deliver_again(muster_topic.name, 0, confirmed.offset())
