"""Changes of messages' shapes: older requests are raised to the newest shape, newest responses are lowered.

The generated codec fills missing fields of older versions with Kafka's defaults. One small module for each API converts
the rest.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from muster.protocol.api import ApiKey
from muster.protocol.message import Message

NEVER: Final = 32767
"""Above all versions: every version is converted."""

# API key -> (first version that needs no raising, first version that needs no lowering, module); 0: none needs it
_CONVERTERS: Final[dict[int, tuple[int, int, str]]] = {
    ApiKey.PRODUCE: (0, 10, "produce"),
    ApiKey.FETCH: (15, 16, "fetch"),
    ApiKey.LIST_OFFSETS: (0, 4, "list_offsets"),
    ApiKey.METADATA: (1, 12, "metadata"),
    ApiKey.OFFSET_COMMIT: (0, 9, "offset_commit"),
    ApiKey.OFFSET_FETCH: (8, NEVER, "offset_fetch"),
    ApiKey.FIND_COORDINATOR: (4, 4, "find_coordinator"),
    ApiKey.JOIN_GROUP: (1, 9, "join_group"),
    ApiKey.LEAVE_GROUP: (3, 3, "leave_group"),
    ApiKey.DESCRIBE_GROUPS: (0, 6, "describe_groups"),
    ApiKey.DELETE_TOPICS: (6, 0, "delete_topics"),
    ApiKey.INIT_PRODUCER_ID: (0, 4, "producer_fenced"),
    ApiKey.ADD_PARTITIONS_TO_TXN: (4, 4, "add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 2, "producer_fenced"),
    ApiKey.END_TXN: (0, 2, "producer_fenced"),
    ApiKey.CREATE_DELEGATION_TOKEN: (0, 3, "delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (0, 3, "delegation_token"),
    ApiKey.TXN_OFFSET_COMMIT: (0, 2, "txn_offset_commit"),
}


def raise_request(key: int, version: int, request: Message) -> Any:
    """Return the request in its newest shape: `request` itself, perhaps changed, or a new message."""
    row = _CONVERTERS.get(key)
    if row is None or version >= row[0]:
        return request
    return _module(row[2]).raise_request(version, request)


def lower_response(key: int, version: int, response: Message) -> Any:
    """Return the response in the shape of `version`: `response` itself, perhaps changed, or a new message."""
    row = _CONVERTERS.get(key)
    if row is None or version >= row[1]:
        return response
    return _module(row[2]).lower_response(version, response)


def converted(key: int, version: int) -> tuple[bool, bool]:
    """Whether requests of this version are raised, and responses lowered, by more than Kafka's defaults."""
    row = _CONVERTERS.get(key)
    return (False, False) if row is None else (version < row[0], version < row[1])


@cache
def _module(name: str) -> Any:
    return import_module(f"muster.protocol.shapes.{name}")
