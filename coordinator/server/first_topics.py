"""The topics and users that must exist before the first client connects."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import structlog

from muster.coordinator.config import Config
from muster.coordinator.history.settings import ObserveSettings
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.names import (
    GROUP_EVENTS_TOPIC,
    GROUP_OFFSETS_TOPIC,
    TRANSACTION_EVENTS_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from muster.coordinator.topics.topics import Topics

log = structlog.get_logger("muster.server")


def ensuring_first(config: Config, topics: Topics, draw_uuid: Callable[[], bytes]) -> Job[None]:
    """Create the missing topics of the coordinators and of the configuration, and write the given users. Raises
    `topics.errors.ApiError`.
    """
    histories = config.settings(ObserveSettings)
    yield from topics.ensuring(GROUP_OFFSETS_TOPIC)
    if histories.muster_group_events_enable:
        yield from topics.ensuring(GROUP_EVENTS_TOPIC)
    if histories.muster_transaction_events_enable and TRANSACTION_STATE_TOPIC in topics.by_name:
        yield from topics.ensuring(TRANSACTION_EVENTS_TOPIC)
    for name, partitions in config.topics:
        topic = yield from topics.ensuring(name, partitions)
        there = len(topic.partitions)
        if there != partitions:
            log.warning(
                "a topic of --topic is there with another number of partitions: it stays as it is",
                topic=name, partitions=there, wanted=partitions,
            )  # fmt: skip
    if config.users:
        # imported here: hardly any server has given users
        users = import_module("muster.coordinator.config.users")
        yield from topics.writing(users.records(config.users, topics.state.scram, draw_uuid))
