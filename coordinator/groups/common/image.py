"""The topics as the groups see them: an immutable image, which is replaced when a topic changes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class TopicImage:
    """One topic: name, id (16 bytes) and partition count. `consumer.topics` sets `metadata_hash` later."""

    __slots__ = ("leader_epochs", "metadata_hash", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, partitions: int, leader_epochs: tuple[int, ...] = ()) -> None:
        """`leader_epochs`: one for each partition. An empty tuple means that all epochs are 0."""
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.leader_epochs = leader_epochs or (0,) * partitions
        self.metadata_hash: int | None = None


class TopicsImage:
    """All topics at one moment, by name and by id. `version` is the metadata log's end offset, which grows with each
    change. `deleted`: the names of deleted topics by id, as far as the metadata log has them.
    """

    __slots__ = ("_before", "_gone", "by_id", "by_name", "deleted", "version")

    def __init__(
        self,
        topics: Mapping[str, TopicImage],
        version: int,
        deleted: Mapping[bytes, str] = MappingProxyType({}),
        by_id: Mapping[bytes, TopicImage] | None = None,
    ) -> None:
        """`by_id`: the same topics by id, if the caller has this map. The constructor copies both maps."""
        self.deleted = deleted
        self.by_name: Mapping[str, TopicImage] = MappingProxyType(dict(topics))
        copied = {t.topic_id: t for t in topics.values()} if by_id is None else dict(by_id)
        self.by_id: Mapping[bytes, TopicImage] = MappingProxyType(copied)
        self.version = version
        self._before: int | None = None
        """The version of the image that `_gone` is about."""
        self._gone: Mapping[bytes, str] = {}

    def gone_since(self, before: TopicsImage) -> Mapping[bytes, str]:
        """The topics of `before` that were deleted since then: name by id. The result is cached for all shards."""
        if self._before != before.version:
            ids = self.by_id
            self._gone = {}
            if not ids.keys() >= before.by_id.keys():  # most changes delete no topic
                self._gone = {topic_id: one.name for topic_id, one in before.by_id.items() if topic_id not in ids}
            self._before = before.version
        return self._gone


NO_TOPICS = TopicsImage({}, 0)


class TopicsChanged:
    """The command that gives a core its next image. The output has only tombstones for offsets of deleted topics."""

    __slots__ = ("image",)

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
