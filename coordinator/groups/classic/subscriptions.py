"""The topics that a classic group of consumers subscribes to, for OffsetDelete and retention.

They are taken from the members' metadata of the chosen protocol at each generation change (Kafka's
computeSubscribedTopics). They are decoded only when needed, as version 0 whatever version they claim. Metadata that is
no subscription makes the topics unknown. On Kafka 4.3.0 some bytes of it leave the group in PreparingRebalance for
ever, which Muster does not copy. Too much metadata also makes the topics unknown: the record of such a group is too
large to be written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from muster.protocol.consumer import subscribed_topics
from muster.protocol.message import MalformedMessage

SHORT: Final = 64 * 1024
"""Equal metadata up to this many bytes is decoded once. Longer metadata is decoded for each member."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a whole group's metadata. With more bytes the topics are unknown."""


MOST_NAMES: Final = 100_000
"""Names that all members claim together, which are decoded for the history: some 30 ms."""
_NAMES_AT: Final = slice(2, 6)
"""The bytes of a subscription with the number of its topics."""


class Subscriptions:
    """The known topics of a group: none (`metadata` None), or those in these members' metadata."""

    __slots__ = ("_metadata", "_topics")

    def __init__(self, metadata: Sequence[bytes] | None) -> None:
        distinct: Collection[bytes] = metadata or ()
        if len(distinct) > 1:
            # A hash of long metadata has to read all of it.
            distinct = {one if len(one) <= SHORT else id(one): one for one in distinct}.values()
        is_known = metadata is not None and sum(map(len, distinct)) <= MOST_BYTES
        self._metadata: tuple[bytes, ...] | None = tuple(distinct) if is_known else None  # None until it is decoded
        self._topics: frozenset[str] | None = None

    @property
    def is_long(self) -> bool:
        """Whether members name too many topics for the history."""
        if self._metadata is None:
            return len(self._topics or ()) > MOST_NAMES
        return sum([int.from_bytes(one[_NAMES_AT], signed=True) for one in self._metadata]) > MOST_NAMES

    def topics(self) -> frozenset[str] | None:
        """The topics that members subscribe to. None when they are unknown."""
        if self._metadata is not None:
            self._topics, self._metadata = _decode(self._metadata), None
        return self._topics


UNKNOWN = Subscriptions(None)


def _decode(metadata: Iterable[bytes]) -> frozenset[str] | None:
    try:
        return frozenset(topic for one in metadata for topic in subscribed_topics(one))
    except MalformedMessage:
        return None
