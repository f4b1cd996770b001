"""Helpers of tests of topics: topics over logs in memory, and batches as a producer sends them."""

from __future__ import annotations

import itertools
from typing import Any

from muster.coordinator.log import (
    AppendResult,
    LogManager,
    LogSettings,
    MemoryStorage,
    SharedSync,
    Storage,
    batches,
)
from muster.coordinator.log.records.compression import allowed
from muster.coordinator.properties.definition import Value
from muster.coordinator.properties.live import Defaults, Live
from muster.coordinator.properties.lookup import BROKER
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.topics.topics import Topics
from muster.coordinator.topics.validation import first_batch, only_batch


class Started(Defaults):
    """A broker's configuration from a dict; other properties have their defaults."""

    def __init__(self, values: dict[str, str] | None = None) -> None:
        self.values = values or {}

    def value(self, name: str) -> Value:
        return BROKER[name].parse(self.values[name]) if name in self.values else super().value(name)

    def text(self, name: str) -> str | None:
        return self.values.get(name, super().text(name))

    def source(self, name: str) -> str:
        return "static" if name in self.values else "default"


def started_with(properties: dict[str, str]) -> Live:
    """The configuration of a broker with these properties."""
    return Live(Started(properties))


class Draws:
    """Known ids of 16 bytes: 1, 2, 3 …, in the first four bytes and in the last four."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def __call__(self) -> bytes:
        number = next(self._numbers).to_bytes(4, "big")
        return number + bytes(8) + number


def make_topics(
    storage: Storage | None = None,
    clock: ManualClock | None = None,
    live: Live | None = None,
    sync: SharedSync | None = None,
    partitions_are_given: bool = True,
    **settings: Any,
) -> Topics:
    """Topics that are loaded; the same storage again means a restart."""
    draws = Draws()
    logs = LogManager(storage or MemoryStorage(), LogSettings(), sync=sync)
    identity = logs.open(cluster_id=None, node_id=1, draw_uuid=draws)
    configs = TopicConfigs(live)
    topics = Topics(
        TopicSettings(**settings),
        clock or ManualClock(),
        logs,
        identity,
        configs,
        draws,
        partitions_are_given=lambda _: partitions_are_given,
    )
    topics.load()
    return topics


def add_topic(topics: Topics, name: str = "t", partitions: int = 1, **configs: str) -> Partition:
    """A new topic with configs (retention_ms for retention.ms); its first partition."""
    named = {key.replace("_", "."): text for key, text in configs.items()}
    at_once(topics.creating(NewTopic(name, topics.draw_uuid(), partitions, 1, configs=named)))
    partition = topics.open.partition(name, 0)
    assert partition is not None
    return partition


def produce(partition: Partition, data: bytes, now: Now) -> AppendResult:
    """Append the batches of a Produce request for this partition."""
    most = allowed(partition.log.config.max_message_bytes)
    stored = partition.check(data, only_batch(data, first_batch(data)), now, most)
    return partition.append(stored.batch, stored.header, now)


def batch(*values: bytes | None, key: bytes | None = b"k", at_ms: int = 1_700_000_000_000, **more: Any) -> bytes:
    """One record batch with these values, or with one value."""
    records = [(key, value) for value in values or (b"v",)]
    return bytes(batches.build(records, timestamp_ms=at_ms, **more))
