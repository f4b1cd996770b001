"""What a request consists of: its version, its embedded bytes, and requests that the server refuses as invalid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from muster.clientlint.calls import Call, Certainty, Client
from muster.clientlint.watcher import MAX_ROWS, Broken, Kept, Watcher, broken
from muster.protocol.api import ApiKey
from muster.protocol.consumer import PROTOCOL_TYPE, decode_assignment, decode_subscription, subscribed_topics
from muster.protocol.errors import ErrorCode
from muster.protocol.message import MalformedMessage

OLD: Final[Mapping[int, tuple[int, str]]] = {
    ApiKey.FETCH: (10, "no leader epochs, and no batches compressed with zstd (KIP-320, KIP-110)"),
    ApiKey.METADATA: (7, "no leader epochs, so that stale metadata is not noticed (KIP-320)"),
    ApiKey.OFFSET_COMMIT: (6, "no leader epochs, so that a truncated log is not noticed (KIP-320)"),
    ApiKey.OFFSET_FETCH: (7, "no stable offsets, so that offsets of open transactions are missed (KIP-447)"),
    ApiKey.JOIN_GROUP: (4, "a member without an id is added at once, and stays after a timeout (KIP-394)"),
    ApiKey.END_TXN: (5, "transactions are not ended with a new epoch (KIP-890)"),
    ApiKey.API_VERSIONS: (3, "the software has no name in the broker's logs and metrics (KIP-511)"),
}
"""By API: versions below the first number are served, and lack something."""
MAX_BYTES: Final = 64 * 1024
"""The most embedded bytes of a request that are read: the first ones."""


class Messages(Watcher):
    """See the module."""

    def __init__(self) -> None:
        self._seen: Kept[tuple[Client, int, int], bool] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        old = OLD.get(call.api_key)
        if old is not None and call.version < old[0]:
            key = call.client, call.api_key, call.version
            if self._seen.find(key) is None:
                self._seen.put(key, True)
                yield broken("old-version", call, f"{call.api} version {call.version}: {old[1]}", Certainty.SURE)
        if call.api_key == ApiKey.JOIN_GROUP and call.request.protocol_type == PROTOCOL_TYPE:
            subscriptions = [
                (f"the subscription for the protocol {one.name}", one.metadata)
                for one in call.request.protocols[:MAX_ROWS]
            ]
            yield from _embedded(call, subscriptions, decode_subscription)
        elif call.api_key == ApiKey.SYNC_GROUP and call.request.protocol_type in (None, PROTOCOL_TYPE):
            yield from self._assignments(call)

    @staticmethod
    def _assignments(call: Call) -> Iterator[Broken]:
        # version 5 names the protocol type; before, the bytes may belong to another protocol than the consumers'
        if call.request.protocol_type is not None:
            assignments = [
                (f"the assignment of member {row.member_id}", row.assignment)
                for row in call.request.assignments[:MAX_ROWS]
                if row.assignment
            ]
            yield from _embedded(call, assignments, decode_assignment)

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        if call.answer is not None and call.error == ErrorCode.INVALID_REQUEST:
            reason = getattr(call.answer, "error_message", None)
            words = f"{call.api} version {call.version} was refused with INVALID_REQUEST"
            yield broken("invalid-request", call, f"{words}: {reason}" if reason else words, Certainty.SURE)


def _embedded(call: Call, parts: Sequence[tuple[str, bytes]], decode: Callable[[bytes], object]) -> Iterator[Broken]:
    left = MAX_BYTES
    for what, data in parts:
        left -= len(data)
        if left < 0:
            return
        try:
            decode(data)
        except MalformedMessage as wrong:
            sure = Certainty.SURE
            if decode is decode_subscription and _reads_as_oldest(data):
                sure = Certainty.PERHAPS  # Kafka's broker reads only the topics
            size = f"{len(data)} bytes" if len(data) != 1 else "1 byte"
            yield broken("unreadable-subscription", call, f"{what} ({size}) does not parse: {wrong}", sure)


def _reads_as_oldest(data: bytes) -> bool:
    try:
        subscribed_topics(data)
    except MalformedMessage:
        return False
    return True
