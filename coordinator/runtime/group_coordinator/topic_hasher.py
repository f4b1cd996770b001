"""Hashes topics for consumer groups before a group needs the hashes: a group may name 10,000 new topics at once."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.runtime.group_coordinator.background_work import Nobody
from muster.coordinator.system.jobs import Job, JobQueue

FEW_TOPICS: Final = 500
"""At most this many new topics are left to the group that needs their hashes: 2 ms."""
HASHED_AT_ONCE: Final = 50
"""Topics that are hashed in one step of the job."""


class TopicHasher:
    """Gets each new image of the topics, and hashes many new topics in a job."""

    def __init__(self, slices: JobQueue, rack: str | None) -> None:
        """`rack`: the rack of this node, as the groups know it."""
        self._slices = slices
        self._rack = rack
        self._seen = 0

    def topics_changed(self, image: TopicsImage) -> None:
        """The image of the topics has changed."""
        count = len(image.by_name)
        self._seen = min(self._seen, count)
        if count - self._seen > FEW_TOPICS:
            self._seen = count
            self._slices.run(
                self._hash(image), _done, Nobody("topics could not be hashed; groups do it when they need it")
            )

    def _hash(self, image: TopicsImage) -> Job[None]:
        # It is imported here: a server with few topics and without such groups does not need it.
        hashes = import_module("muster.coordinator.groups.consumer.topic_hashes")
        for number, topic in enumerate(list(image.by_name.values())):
            hashes.of_topic(topic, self._rack)
            if not number % HASHED_AT_ONCE:
                yield None


def _done(_: object) -> None:
    pass
