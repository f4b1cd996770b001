"""The verbs of the control about topics and their records. Knows no socket."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from muster.testcontrol import expected
from muster.testcontrol.http import shown
from muster.testcontrol.http.body import Fields, query_number
from muster.testcontrol.http.failures import Failure
from muster.testcontrol.http.verb import DONE, Answer, VerbCall
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord

MOST_PRODUCED: Final = 5_000
"""The most records of one request."""
MOST_READ: Final = 1_000
"""The most records of one answer."""
MOST_READ_BYTES: Final = 1024 * 1024
"""The most bytes of their keys and values; an answer has at least one record."""

PAIR: Final = 2
"""A header has a name and a value."""


def list_topics(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """List all topics."""
    return {"topics": [shown.topic(rehearsal, name) for name in rehearsal.topics.names()]}


def topic(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Show one topic."""
    return shown.topic(rehearsal, call.path["topic"])


async def create_topic(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Create a topic."""
    name, partitions = call.body.need("name", str), call.body.number("partitions", least=1)
    configs = call.body.take("configs", dict, {})
    call.body.end()
    await rehearsal.topics.create(name, partitions, configs)
    return shown.topic(rehearsal, name)


async def grow_topic(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Add partitions."""
    partitions = call.body.need("partitions", int)
    call.body.end()
    await rehearsal.topics.grow(call.path["topic"], partitions)
    return shown.topic(rehearsal, call.path["topic"])


async def delete_topic(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Delete a topic."""
    await rehearsal.topics.delete(call.path["topic"])
    return DONE


async def produce(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Append records."""
    given = call.body.need("records", list)
    if len(given) > MOST_PRODUCED:
        raise Failure("bad-request", f"there are {len(given)} records; at most {MOST_PRODUCED} were expected")
    rows = [_new_record(Fields(row)) for row in given]
    call.body.end()
    places = await rehearsal.topics.produce(call.path["topic"], rows)
    return {"records": [{"partition": partition, "offset": offset} for partition, offset in places]}


def _new_record(row: Fields) -> NewRecord:
    headers = row.take("headers", dict, {})
    encoded = [_header(one) for one in row.take("headers_base64", list, [])]
    made = NewRecord(
        _bytes(row, "value"),
        _bytes(row, "key"),
        row.number("partition"),
        (*((name, expected.content(f"header {name}", value)) for name, value in headers.items()), *encoded),
        row.number("timestamp_ms"),
    )
    row.end()
    return made


def _header(pair: Any) -> tuple[str, bytes | None]:
    if not (isinstance(pair, list) and len(pair) == PAIR and isinstance(pair[0], str)):
        raise Failure("bad-request", expected.sentence("headers_base64", pair, "a list of a name and a base64 or null"))
    return pair[0], None if pair[1] is None else _decoded(f"headers_base64: {pair[0]}", pair[1])


def _bytes(row: Fields, name: str) -> bytes | None:
    text, encoded = row.take(name, str), row.take(f"{name}_base64", str)
    if encoded is None:
        return None if text is None else str(text).encode()
    return _decoded(f"{name}_base64", encoded)


def _decoded(name: str, encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise Failure("bad-request", f"{name} is no base64: {error}") from error


def records(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Show records of a partition."""
    name, query = call.path["topic"], call.query
    partition = query_number(query, "partition", 0)
    since, most = query_number(query, "offset", 0), query_number(query, "limit", 100)
    found = rehearsal.topics.records(name, partition, since=since, most=min(most, MOST_READ))
    left = MOST_READ_BYTES
    for number, one in enumerate(found):
        left -= len(one.value or b"") + len(one.key or b"")
        if left < 0 and number:
            del found[number:]
            break
    return {"records": list(map(shown.record, found)), "end_offset": rehearsal.topics.end_offsets(name)[partition]}
