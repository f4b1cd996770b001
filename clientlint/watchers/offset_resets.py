"""OffsetFetch was refused for a stale epoch, and the client begins elsewhere: it may lose or repeat records.

STALE_MEMBER_EPOCH means that the member has a newer epoch, and asks again with it. A client that takes the error for
"no offset is committed" asks ListOffsets for the end of the log, and goes on there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from muster.clientlint.calls import Call, Certainty, Client, Known, known
from muster.clientlint.watcher import MAX_ROWS, Broken, Kept, Watcher, broken, named, seconds
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID

_STALE: Final = frozenset((ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))
_ENDS: Final = {-1: "the end", -2: "the beginning"}
"""The timestamps of ListOffsets for the ends of a log."""


class _Refused:
    """A client whose OffsetFetch was refused. `looked_up`: by partition, the offset that ListOffsets then gave."""

    __slots__ = ("answer", "looked_up", "topics")

    def __init__(self, answer: Known, topics: set[str]) -> None:
        self.answer = answer
        self.topics = topics
        self.looked_up: dict[tuple[str, int], tuple[int, str]] = {}


class OffsetResets(Watcher):
    """See the module. Topic ids are read as the names that Metadata gave the clients."""

    apis = (ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS, ApiKey.FETCH, ApiKey.METADATA)

    def __init__(self) -> None:
        self._refused: Kept[Client, _Refused] = Kept()
        self._names: Kept[bytes, str] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        refused = self._refused.find(call.client) if len(self._refused) else None
        if refused is None or call.api_key != ApiKey.FETCH:
            return
        for topic, row in _rows(call.request.topics):
            name = topic.topic or self._name(topic.topic_id)
            offset, where = refused.looked_up.get((name, row.partition), (-1, ""))
            if offset == row.fetch_offset:
                yield self._began(call, refused, f"{name}-{row.partition}", f"{where}, offset {offset}")
                self._refused.drop(call.client)
                return

    @staticmethod
    def _began(call: Call, refused: _Refused, partition: str, where: str) -> Broken:
        words = (
            f"reads {partition} from {where}, {seconds(call.asked_ms - refused.answer.at_ms)} after OffsetFetch was "
            f"refused with {named(refused.answer.error)}, and without another OffsetFetch"
        )
        return broken("reset-after-stale-epoch", call, words, Certainty.SURE)

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        if call.answer is None:
            return
        if call.api_key == ApiKey.METADATA:
            self._learn(call.answer)
        elif call.api_key == ApiKey.OFFSET_FETCH:
            self._offsets(call)
        elif call.api_key == ApiKey.LIST_OFFSETS and len(self._refused):
            self._looked_up(call)
        yield from ()

    def _offsets(self, call: Call) -> None:
        error = next((row.error_code for row in call.answer.groups[:MAX_ROWS] if row.error_code), 0)
        if not error:
            self._refused.drop(call.client)
        elif error in _STALE:
            asked = (topic for group in call.request.groups for topic in group.topics or ())
            topics = {topic.name or self._name(topic.topic_id) for topic in islice(asked, MAX_ROWS)}
            self._refused.put(call.client, _Refused(known(call, error), topics))

    def _looked_up(self, call: Call) -> None:
        refused = self._refused.find(call.client)
        if refused is None:
            return
        asked = {
            (topic.name, row.partition_index): _ENDS[row.timestamp]
            for topic, row in _rows(call.request.topics)
            if row.timestamp in _ENDS and topic.name in refused.topics
        }
        for topic, row in _rows(call.answer.topics if asked else ()):
            place = topic.name, row.partition_index
            if place in asked and not row.error_code and len(refused.looked_up) < MAX_ROWS:
                refused.looked_up[place] = row.offset, asked[place]

    def _learn(self, answer: Any) -> None:
        for topic in answer.topics[:MAX_ROWS]:
            if topic.name and topic.topic_id != ZERO_UUID:
                self._names.put(topic.topic_id, topic.name)

    def _name(self, topic_id: bytes) -> str:
        return self._names.find(topic_id) or ""


def _rows(topics: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Topics with their partitions: the first `MAX_ROWS`."""
    return islice(((topic, row) for topic in topics for row in topic.partitions), MAX_ROWS)
