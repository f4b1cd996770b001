"""The topics as the groups see them: an immutable image, which is replaced when a topic changes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


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


class DeletedSince(NamedTuple):
    """The topics of the image of version `before` that a later image does not have: name by id."""

    before: int
    names: Mapping[bytes, str]


class TopicsImage:
    """All topics at one moment, by name and by id. `version` is the metadata log's end offset, which grows with each
    change. `deleted`: the names of deleted topics by id, as far as the metadata log has them.
    """

    __slots__ = ("_gone", "by_id", "by_name", "deleted", "version")

    def __init__(
        self,
        topics: Mapping[str, TopicImage],
        version: int,
        deleted: Mapping[bytes, str] = MappingProxyType({}),
        by_id: Mapping[bytes, TopicImage] | None = None,
        gone: DeletedSince | None = None,
    ) -> None:
        """`by_id`: the same topics by id; then both maps are the image's own. Otherwise `topics` is copied.

        `gone`: the topics that were deleted since another image, if the caller knows them.
        """
        self.deleted = deleted
        if by_id is None:
            topics = dict(topics)
            by_id = {t.topic_id: t for t in topics.values()}
        self.by_name: Mapping[str, TopicImage] = MappingProxyType(topics)
        self.by_id: Mapping[bytes, TopicImage] = MappingProxyType(by_id)
        self.version = version
        self._gone = gone

    def gone_since(self, before: TopicsImage) -> Mapping[bytes, str]:
        """The topics of `before` that were deleted since then: name by id. The result is cached for all shards."""
        gone = self._gone
        if gone is None or gone.before != before.version:
            ids = self.by_id
            names: Mapping[bytes, str] = {}
            if not ids.keys() >= before.by_id.keys():  # most changes delete no topic
                names = {topic_id: one.name for topic_id, one in before.by_id.items() if topic_id not in ids}
            self._gone = gone = DeletedSince(before.version, names)
        return gone.names


NO_TOPICS = TopicsImage({}, 0)


class TopicsChanged:
    """The command that gives a core its next image. The output has only tombstones for offsets of deleted topics."""

    __slots__ = ("image",)

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
