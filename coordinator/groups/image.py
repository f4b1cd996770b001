"""The topics as the groups see them: an immutable image, replaced as a whole when a topic changes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class TopicImage:
    """One topic: its name, id (16 bytes) and partition count. Immutable by convention."""

    __slots__ = ("leader_epochs", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, partitions: int, leader_epochs: tuple[int, ...] = ()) -> None:
        """`leader_epochs`: one per partition; empty means all 0."""
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.leader_epochs = leader_epochs or (0,) * partitions


class TopicsImage:
    """All topics at one moment, by name and by id. `version` grows with each change (the metadata log's end offset).

    `deleted`: the names, by id, of topics that were deleted, as far as the metadata log goes back.
    """

    __slots__ = ("by_id", "by_name", "deleted", "version")

    def __init__(
        self, topics: Mapping[str, TopicImage], version: int, deleted: Mapping[bytes, str] = MappingProxyType({})
    ) -> None:
        self.deleted = deleted
        self.by_name: Mapping[str, TopicImage] = MappingProxyType(dict(topics))
        self.by_id: Mapping[bytes, TopicImage] = MappingProxyType({t.topic_id: t for t in topics.values()})
        self.version = version


NO_TOPICS = TopicsImage({}, 0)


class TopicsChanged:
    """The command that gives a core its next image; it is answered with records only (offsets of deleted topics)."""

    __slots__ = ("image",)

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
