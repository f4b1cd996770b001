"""The existing topics of a group, found once for each set of names and each image.

A group may name a million topics that do not exist. Code that needs the topics of a group reads only existing ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import Description
from muster.coordinator.groups.consumer.topic_hashes import hash_of

FEW_NAMES: Final = 100
"""The ids are not kept for a subscription with at most this many names."""
MOST_KEPT: Final = 8
"""Subscriptions of a group whose ids are kept, for members that follow their targets one after the other."""


class Existing:
    """The existing topics of a group in one image. Their names ascend; `partitions` is their total number."""

    __slots__ = ("_ids", "_image", "metadata_hash", "names", "names_version", "partitions")

    def __init__(self, group: ConsumerGroup, image: TopicsImage) -> None:
        by_name = image.by_name
        self._image = image
        self._ids: dict[tuple[int, str | None], tuple[Description, Collection[bytes]]] = {}
        self.names_version = group.names_version
        self.names = tuple(sorted(among(group.names, by_name)))
        self.partitions = sum([by_name[name].partitions for name in self.names])
        self.metadata_hash: int | None = None

    def is_of(self, group: ConsumerGroup, image: TopicsImage) -> bool:
        """Whether nothing has changed since it was made."""
        return self._image is image and self.names_version == group.names_version

    def ids_of(self, group: ConsumerGroup, said: Description) -> Collection[bytes]:
        """The ids of the existing topics that a member with this description subscribes to."""
        by_name = self._image.by_name
        if len(said.topics) <= FEW_NAMES and not said.pattern:
            return {by_name[name].topic_id for name in said.topics if name in by_name}
        key = id(said.topics), said.pattern
        known = self._ids.get(key)
        if known is None:
            if len(self._ids) == MOST_KEPT:
                self._ids.clear()
            ids = {by_name[name].topic_id for name in group.topics_of(said) if name in by_name}
            # the description keeps its tuple of names alive, so no other tuple can get the same id()
            known = self._ids[key] = said, ids
        return known[1]


def among(names: Collection[str], by_name: Mapping[str, TopicImage]) -> list[str]:
    """The names of topics that exist. The time is that of the smaller collection."""
    if len(names) <= len(by_name):
        return [name for name in names if name in by_name]
    return [name for name in by_name if name in names]


def existing(group: ConsumerGroup, image: TopicsImage) -> Existing:
    """The existing topics of a group."""
    found: Existing | None = group.existing
    if found is None or not found.is_of(group, image):
        found = group.existing = Existing(group, image)
    return found


def group_hash(group: ConsumerGroup, image: TopicsImage, rack: str | None) -> int:
    """The hash of the topics of a group, as in its epoch's record."""
    found = existing(group, image)
    if found.metadata_hash is None:
        found.metadata_hash = hash_of(found.names, image, rack)
    return found.metadata_hash
