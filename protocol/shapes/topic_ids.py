"""Topics by id or by name: newest requests carry ids (KIP-516), older ones names; handlers want both.

Handlers that have the topic catalogue call these with its look-ups. Every row that names a topic by `name` (or, in
Fetch, `topic`) and `topic_id` will do. Responses keep both: the encoder writes the one its version has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from muster.protocol.api import ApiKey
from muster.protocol.message import ZERO_UUID

if TYPE_CHECKING:
    # it is large, and commits need this module without it
    from muster.protocol.messages.fetch import FetchRequest

# The first version of each API that names topics by id only.
FIRST_BY_ID: Final = {
    ApiKey.PRODUCE: 13,
    ApiKey.FETCH: 13,
    ApiKey.OFFSET_COMMIT: 10,
    ApiKey.OFFSET_FETCH: 10,
}

NameOf = Callable[[bytes], str | None]
"""Topic id (16 bytes) -> name, None when there is no such topic."""
IdOf = Callable[[str], bytes | None]
"""Topic name -> id (16 bytes), None when there is no such topic."""


class NamedTopic(Protocol):
    """A row of a request or response that stands for a topic."""

    name: str
    topic_id: bytes


Row = TypeVar("Row", bound=NamedTopic)


def by_id(api_key: int, version: int) -> bool:
    """Whether requests of this version name topics by id, so that an unknown one is UNKNOWN_TOPIC_ID (100)."""
    first = FIRST_BY_ID.get(api_key)
    return first is not None and version >= first


def fill_names(rows: Sequence[Row], name_of: NameOf) -> list[Row]:
    """Give rows with an id their name; the rows whose id is not known, which stay without."""
    unknown = []
    for row in rows:
        if row.topic_id != ZERO_UUID and not row.name:
            name = name_of(row.topic_id)
            if name is None:
                unknown.append(row)
            else:
                row.name = name
    return unknown


def fill_ids(rows: Sequence[Row], id_of: IdOf) -> list[Row]:
    """Give rows with a name their id; the rows whose name is not known, which stay without."""
    unknown = []
    for row in rows:
        if row.name and row.topic_id == ZERO_UUID:
            topic_id = id_of(row.name)
            if topic_id is None:
                unknown.append(row)
            else:
                row.topic_id = topic_id
    return unknown


def fill_fetch_names(request: FetchRequest, name_of: NameOf) -> None:
    """Give the topics and forgotten topics of a Fetch their names; an unknown id stays without one."""
    for topic in request.topics:
        if topic.topic_id != ZERO_UUID and not topic.topic:
            topic.topic = name_of(topic.topic_id) or ""
    for forgotten in request.forgotten_topics_data:
        if forgotten.topic_id != ZERO_UUID and not forgotten.topic:
            forgotten.topic = name_of(forgotten.topic_id) or ""
