"""The topics that a classic group of consumers subscribes to, as OffsetDelete and retention ask for them.

Taken from the members' metadata of the chosen protocol at each generation change (Kafka's computeSubscribedTopics),
decoded only when the topics are asked for. Metadata that is no subscription makes the topics unknown (on Kafka 4.3.0
some bytes of it leave the group in PreparingRebalance for ever, which is not copied). So does too much metadata: the
record of such a group is too large to be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from muster.protocol.consumer import decode_subscription
from muster.protocol.message import MalformedMessage

SHORT: Final = 64 * 1024
"""Equal metadata up to so many bytes is decoded once; longer metadata for each member."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a whole group's metadata; with more the topics are unknown."""


class Subscriptions:
    """What is known of a group's topics: nothing (`metadata` None), or what these members' metadata says."""

    __slots__ = ("_known", "_metadata", "_topics")

    def __init__(self, metadata: Iterable[bytes] | None) -> None:
        # to hash long metadata is to read all of it
        distinct = {one if len(one) <= SHORT else id(one): one for one in metadata or ()}
        self._metadata: Sequence[bytes] = tuple(distinct.values())
        self._known = metadata is not None and sum(map(len, self._metadata)) <= MOST_BYTES
        self._topics: frozenset[str] | None = None

    def topics(self) -> frozenset[str] | None:
        """The topics that members subscribe to; None when that is unknown."""
        if self._metadata and self._known:
            self._topics, self._known = _decode(self._metadata)
            self._metadata = ()
        elif self._known and self._topics is None:
            self._topics = frozenset()
        return self._topics if self._known else None


UNKNOWN = Subscriptions(None)


def _decode(metadata: Sequence[bytes]) -> tuple[frozenset[str] | None, bool]:
    topics: set[str] = set()
    for one in metadata:
        try:
            topics.update(decode_subscription(one)[1].topics)
        except MalformedMessage:
            return None, False
    return frozenset(topics), True
