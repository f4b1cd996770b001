"""Topics under power cuts and kills between, and within, any two changes of the disk. Acknowledged changes survive,
other changes are complete or absent, and no synced record of an existing topic is lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import pytest

from muster.coordinator.log import LogError, LogOffline, MemoryStorage, batches
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_state import TOPIC_RESOURCE
from muster.coordinator.topics.topics import Topics
from muster.virtual.faulty_storage import Died, FaultyStorage
from tests.coordinator.log.support import PendingResult
from tests.coordinator.topics.support import batch, make_topics, produce

NOW = Now(0, 1_700_000_000_000)
MAX_STEPS = 150
"""More than the number of disk changes of the whole history."""
WHOLE_LIVES = 5
"""The number of lives that end before they die: a power cut leaves something different of each."""


class Life:
    """A server's life with some topics, until it dies. Each change notes what it wants and what was acknowledged."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage = storage
        self.later = PendingResult()
        self.acknowledged: list[str] = []
        self.wanted: list[str] = []
        self.synced: dict[str, list[bytes]] = {}
        """Values that were produced and synced, by the name of the topic and a number: a name may be used again."""
        self.producer_ids: list[int] = []
        self.ids: dict[str, bytes] = {}
        self.topics: Topics

    def run(self) -> None:
        self.topics = make_topics(self.storage, sync=self.later.sync)
        self._change("create first", partial(self._create, "first", "t", 2))
        self._produce("first", "t", b"one")
        self._change(
            "configure", lambda: at_once(self.topics.setting_configs(TOPIC_RESOURCE, "t", {"retention.ms": "77"}))
        )
        self._change("grow", lambda: at_once(self.topics.growing("t", 3, None)))
        self._change("producer", lambda: self.producer_ids.append(at_once(self.topics.drawing_producer_id())))
        self._change("delete", lambda: at_once(self.topics.deleting(self.topics.by_name["t"])), settle=False)
        self._change("create second", partial(self._create, "second", "t", 1), settle=False)
        self.later.settle()
        self._produce("second", "t", b"two")
        self.topics.logs.checkpoint()

    def _create(self, which: str, name: str, partitions: int) -> None:
        self.ids[which] = self.topics.draw_uuid()
        at_once(self.topics.creating(NewTopic(name, self.ids[which], partitions, 1)))

    def _change(self, what: str, change: Callable[[], object], *, settle: bool = True) -> None:
        self.wanted.append(what)
        change()
        self.topics.when_durable(lambda failure: None if failure else self.acknowledged.append(what))
        if settle:
            self.later.settle()

    def _produce(self, which: str, name: str, value: bytes) -> None:
        partition = self.topics.open.partition(name, 0)
        assert partition is not None
        produce(partition, batch(value), NOW)
        partition.log.flush()
        self.synced[which] = [value]


def held(topics: Topics, name: str, index: int) -> list[bytes | None]:
    found = topics.open.partition(name, index)
    assert found is not None
    return [record.value for _, records in batches.read(found.log.read(0, 10_000)) for record in records]


def check(life: Life, after: Topics) -> None:
    done, wanted = set(life.acknowledged), set(life.wanted)
    topic = after.by_name.get("t")
    which = None
    if topic is not None:
        which = next(name for name, topic_id in life.ids.items() if topic_id == topic.topic_id)
        assert all(topic.is_online(index) for index in range(len(topic.partitions)))
    if "create second" in done:
        assert which == "second"
    elif "delete" in done:
        assert which in (None, "second")
    elif "delete" not in wanted and "create first" in done:
        assert which == "first"
    if which is not None:
        assert set(life.synced.get(which, [])) <= set(held(after, "t", 0))
    if which == "first" and topic is not None:
        assert len(topic.partitions) in ({3} if "grow" in done else {2, 3})
        assert after.state.topic_configs("t") == {"retention.ms": "77"} or "configure" not in done
    if which == "second":
        assert after.state.topic_configs("t") == {}
    if "producer" in done:
        assert at_once(after.drawing_producer_id()) not in life.producer_ids
    # a deleted topic is completely gone, and an existing topic is in its place
    folders = {entry.name for entry in after.logs.storage.entries("") if entry.is_directory}
    expected = {f"t-{index}" for index in range(0 if topic is None else len(topic.partitions))}
    assert folders == {"__cluster_metadata-0", *expected}


@pytest.mark.parametrize("power_cut", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_topic_change_survives_a_power_cut_completely_or_not_at_all(seed: int, power_cut: bool) -> None:
    ended = 0
    for dies_at in range(MAX_STEPS):
        storage = FaultyStorage(seed * MAX_STEPS + dies_at, dies_at)
        life = Life(storage)
        try:
            life.run()
        except Died:
            pass
        else:
            ended += 1
        left = storage.left_behind(power_cut=power_cut)
        left.locked = False
        check(life, make_topics(left))
        if ended == WHOLE_LIVES:
            break
    assert ended == WHOLE_LIVES, "the history has more steps"


@pytest.mark.parametrize("seed", range(3))
def test_a_disk_that_fails_refuses_and_loses_nothing_that_was_acknowledged(seed: int) -> None:
    for fails_at in range(MAX_STEPS):
        storage = FaultyStorage(seed, 10 * MAX_STEPS, fails_at=[fails_at])
        life = Life(storage)
        with contextlib.suppress(ApiError, LogError, OSError, AssertionError, KeyError):
            life.run()
        with contextlib.suppress(AttributeError):
            life.topics.logs.close(clean=False)
        has_failed = fails_at <= storage.steps
        left = storage.left_behind(power_cut=False)
        left.locked = False
        after = make_topics(left)
        topic = after.by_name.get("t")
        if "create second" in life.acknowledged:
            assert topic is not None
            assert topic.topic_id == life.ids["second"]
        elif "delete" not in life.wanted and "create first" in life.acknowledged:
            assert topic is not None
            assert set(life.synced.get("first", [])) <= set(held(after, "t", 0))
        if not has_failed:
            break
    assert not has_failed, "the history has more steps"


def test_waiting_changes_are_refused_when_the_disk_fails_and_work_later() -> None:
    storage = FaultyStorage(1, 10_000)
    life = Life(storage)
    life.topics = topics = make_topics(storage, sync=life.later.sync)
    failures: list[LogOffline | None] = []
    at_once(topics.creating(NewTopic("t", topics.draw_uuid(), 1, 1)))
    topics.when_durable(failures.append)
    assert failures == []
    assert topics.image.by_name == {}  # no client has got an answer about the topic yet
    storage.fails_at = frozenset(range(storage.steps + 1, storage.steps + 100))
    life.later.settle()
    assert [type(failure) for failure in failures] == [LogOffline]
    storage.fails_at = frozenset()
    topics.clock.advance(1_000)
    life.later.settle()
    assert list(topics.image.by_name) == ["t"]
    topics.when_durable(failures.append)
    assert failures[1:] == [None]
    left = storage.left_behind(power_cut=True)
    assert list(make_topics(left).by_name) == ["t"]


def test_groups_and_files_follow_a_topic_deletion_when_it_is_durable() -> None:
    storage, later = FaultyStorage(1, 10_000), PendingResult()
    topics = make_topics(storage, sync=later.sync)
    at_once(topics.creating(NewTopic("t", topics.draw_uuid(), 1, 1)))
    later.settle()
    assert list(topics.image.by_name) == ["t"]
    at_once(topics.deleting(topics.by_name["t"]))
    assert topics.by_name == {}
    assert list(topics.image.by_name) == ["t"]
    assert any(name.endswith("-delete") for name in storage.directories)
    later.settle()
    assert topics.image.by_name == {}
    assert not any(name.endswith("-delete") for name in storage.directories)
