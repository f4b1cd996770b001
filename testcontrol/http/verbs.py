"""The verbs of the control: each is the operation of the same name in `openapi.json`, which says what it does."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.config.listeners import show
from muster.coordinator.http.failure import Failure
from muster.coordinator.server.group_views import GroupView
from muster.testcontrol import checks
from muster.testcontrol.errors import CannotBeDone, WrongValue
from muster.testcontrol.http.contract import (
    DONE,
    Answer,
    Fields,
    Verb,
    VerbCall,
    group_json,
    node_json,
    offsets_json,
    query_number,
    record_json,
    records_json,
    topic_json,
)
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord
from muster.testcontrol.virtual_time import LIMIT_MS, SETTLE_MS, TIMEOUT_MS
from muster.testcontrol.waits import COUNTS
from muster.version import VERSION


def done(act: Callable[[ServerControl, VerbCall], Any]) -> Verb:
    """The verb that calls `act`, awaits its result if need be, and answers that the work is done."""

    async def do(control: ServerControl, call: VerbCall) -> Answer:
        result = act(control, call)
        if result is not None:
            await result
        return DONE

    return do


def server(control: ServerControl, _: VerbCall) -> Answer:
    running = control.server
    firsts = [node.bound[0] for node in running.nodes if node.bound]
    return {
        "version": VERSION,
        "cluster_id": running.node.cluster.cluster_id,
        "bootstrap_servers": ",".join(show(one.host or "127.0.0.1", one.port) for one in firsts),
        "nodes": control.nodes.ids(),
        "in_memory": running.config.data_dir is None,
        "virtual_time": control.time.is_movable,
    }


def list_nodes(control: ServerControl, _: VerbCall) -> Answer:
    nodes = control.nodes
    return {"nodes": [node_json(nodes.describe(one)) for one in nodes.ids()]}


def on_node(verb: str) -> Verb:
    """The verb that acts on a broker."""

    async def do(control: ServerControl, call: VerbCall) -> Answer:
        text = call.path["node"]
        if not text.isdigit() or int(text) not in control.nodes.ids():
            raise Failure("not-found", f"there is no node {text}")
        done = getattr(control.nodes, verb)(int(text))
        if done is not None:
            await done
        return list_nodes(control, call)

    return do


MAX_PRODUCED: Final = 5_000
"""The most records of one request."""
MAX_READ: Final = 1_000
"""The most records of one answer."""
MAX_READ_BYTES: Final = 1024 * 1024
"""The most bytes of keys and values in one answer, which has at least one record."""


async def create_topic(control: ServerControl, call: VerbCall) -> Answer:
    name, partitions = call.body.required("name", str), call.body.number("partitions", least=1)
    configs = call.body.optional("configs", dict, {})
    call.body.end()
    await control.topics.create(name, partitions, configs)
    return topic_json(control, name)


async def grow_topic(control: ServerControl, call: VerbCall) -> Answer:
    partitions = call.body.required("partitions", int)
    call.body.end()
    await control.topics.grow(call.path["topic"], partitions)
    return topic_json(control, call.path["topic"])


async def produce(control: ServerControl, call: VerbCall) -> Answer:
    given = call.body.required("records", list)
    if len(given) > MAX_PRODUCED:
        raise Failure("bad-request", f"there are {len(given)} records; at most {MAX_PRODUCED} were expected")
    rows = [_new_record(Fields(row)) for row in given]
    call.body.end()
    places = await control.topics.produce(call.path["topic"], rows)
    return {"records": [{"partition": partition, "offset": offset} for partition, offset in places]}


def _new_record(row: Fields) -> NewRecord:
    headers = row.optional("headers", dict, {})
    encoded = [_header(one) for one in row.optional("headers_base64", list, [])]
    made = NewRecord(
        _bytes(row, "value"),
        _bytes(row, "key"),
        row.number("partition"),
        (*((name, checks.content(f"header {name}", value)) for name, value in headers.items()), *encoded),
        row.number("timestamp_ms"),
    )
    row.end()
    return made


def _header(pair: Any) -> tuple[str, bytes | None]:
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
        raise Failure("bad-request", checks.sentence("headers_base64", pair, "a list of a name and a base64 or null"))
    return pair[0], None if pair[1] is None else _decoded(f"headers_base64: {pair[0]}", pair[1])


def _bytes(row: Fields, name: str) -> bytes | None:
    text, encoded = row.optional(name, str), row.optional(f"{name}_base64", str)
    if encoded is None:
        return None if text is None else str(text).encode()
    return _decoded(f"{name}_base64", encoded)


def _decoded(name: str, encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise Failure("bad-request", f"{name} is no base64: {error}") from error


def records(control: ServerControl, call: VerbCall) -> Answer:
    name, query = call.path["topic"], call.query
    partition = query_number(query, "partition", 0)
    since, most = query_number(query, "offset", 0), query_number(query, "limit", 100)
    found = control.topics.records(name, partition, since=since, most=min(most, MAX_READ))
    left = MAX_READ_BYTES
    for number, one in enumerate(found):
        left -= len(one.value or b"") + len(one.key or b"")
        if left < 0 and number:
            del found[number:]
            break
    return {"records": list(map(record_json, found)), "end_offset": control.topics.end_offsets(name)[partition]}


def clear_faults(control: ServerControl, _: VerbCall) -> Answer:
    control.scenarios.end_all()
    control.faults.clear()
    return DONE


def fault_log(control: ServerControl, call: VerbCall) -> Answer:
    log = control.faults.log
    return {"hits": log.after(query_number(call.query, "after", 0)), "forgotten": log.forgotten}


def scenarios(control: ServerControl, _: VerbCall) -> Answer:
    return {"kinds": control.scenarios.kinds(), "running": [one.to_json() for one in control.scenarios.running]}


async def start_scenario(control: ServerControl, call: VerbCall) -> Answer:
    return (await control.scenarios.start(call.path["scenario"], call.body.given)).to_json()


def end_scenario(control: ServerControl, call: VerbCall) -> Answer:
    control.scenarios.end(call.path["scenario"])
    return DONE


async def advance(control: ServerControl, call: VerbCall) -> Answer:
    ms = call.body.required("ms", int)
    call.body.end()
    return (await control.time.advance(ms))._asdict()


async def run_until(control: ServerControl, call: VerbCall) -> Answer:
    body = call.body
    condition, group_id = body.required("condition", str), body.optional("group", str)
    members, name = body.number("members"), body.optional("partitions", str)
    pace = {
        "limit_ms": body.number("limit_ms", LIMIT_MS),
        "settle_ms": body.number("settle_ms", SETTLE_MS),
        "timeout_ms": body.number("timeout_ms", TIMEOUT_MS),
    }
    body.end()
    if (condition == "idle") != (group_id is None) or condition not in ("idle", "stable"):
        raise Failure("bad-request", "condition is to be idle, or stable with a group")
    return (await control.run_until(group_id, members, name, **pace))._asdict()


# ---- groups

WAIT_MS: Final = 30_000
"""The default limit of a wait."""


def list_groups(control: ServerControl, _: VerbCall) -> Answer:
    groups = control.groups
    return {"groups": [group_json(control, groups.describe(one)) for one in groups.ids()]}


def group(control: ServerControl, call: VerbCall) -> Answer:
    group_id = call.path["group"]
    view = control.groups.describe(group_id)
    more = {
        "coordinator": control.nodes.coordinator_of(group_id),
        "view": view.as_fields(),
        "waiting": control.joins.waiting(group_id),
        "acknowledgements_waiting": control.acknowledgements.waiting(group_id),
    }
    return {**group_json(control, view), **more}


async def history(control: ServerControl, call: VerbCall) -> Answer:
    last = query_number(call.query, "last", None)
    events = await control.groups.events(call.path["group"])
    everything = bool(query_number(call.query, "everything", 0))
    lines = await control.groups.history(call.path["group"], everything=everything)
    return {"events": events if last is None else events[-last:] if last else [], "timeline": lines}


async def wait_stable(control: ServerControl, call: VerbCall) -> Answer:
    body = call.body
    members, topic_name = body.number("members"), body.optional("partitions", str)
    timeout_s = body.number("timeout_ms", WAIT_MS) / 1000
    body.end()
    group_id = call.path["group"]
    view = await control.groups.wait_stable(group_id, members=members, partitions=topic_name, timeout_s=timeout_s)
    return group_json(control, view)


async def wait_consumed(control: ServerControl, call: VerbCall) -> Answer:
    body, group_id = call.body, call.path["group"]
    name, lag = body.required("topic", str), body.number("lag", 0)
    timeout_s = body.number("timeout_ms", WAIT_MS) / 1000
    body.end()
    starts, ends = control.topics.start_offsets(name), control.topics.end_offsets(name)
    if not lag:
        up_to = {(name, index): end for index, end in ends.items()}
        return offsets_json(await control.groups.wait_consumed(group_id, name, up_to=up_to, timeout_s=timeout_s))

    def is_near(view: GroupView) -> bool:
        committed = view.offsets.get(name, {})
        return sum(max(end - committed.get(index, starts[index]), 0) for index, end in ends.items()) <= int(lag)

    what = f"has committed all but {lag} records of {name}"
    view = await control.groups.wait_until(group_id, is_near, what=what, topics=name, timeout_s=timeout_s)
    return offsets_json(view)


async def configure_group(control: ServerControl, call: VerbCall) -> Answer:
    configs = call.body.required("configs", dict)
    call.body.end()
    await control.groups.configure(call.path["group"], configs)
    return DONE


async def wait_acknowledged(control: ServerControl, call: VerbCall) -> Answer:
    body = call.body
    name, timeout_s = body.required("topic", str), body.number("timeout_ms", WAIT_MS) / 1000
    body.end()
    view = await control.groups.wait_acknowledged(call.path["group"], name, timeout_s=timeout_s)
    return records_json(view)


async def wait_records(control: ServerControl, call: VerbCall) -> Answer:
    body = call.body
    what, records = body.required("what", str), body.number("records", 1, 1)
    name, member = body.optional("topic", str), body.optional("member", str)
    timeout_s = body.number("timeout_ms", WAIT_MS) / 1000
    body.end()
    if what not in COUNTS:
        raise WrongValue(checks.sentence("what", what, f"one of {', '.join(COUNTS)}"))
    group_id = call.path["group"]
    view = await control.groups.wait_records(group_id, what, records, name, member=member, timeout_s=timeout_s)
    return records_json(view)


def expire_locks(control: ServerControl, call: VerbCall) -> Answer:
    body = call.body
    member = body.optional("member", str)
    where = {
        "topic": body.optional("topic", str),
        **{name: body.optional(name, int) for name in ("partition", "offset", "last_offset")},
    }
    body.end()
    return {**DONE, "records": control.groups.expire_locks(call.path["group"], member, **where)}


def deliver_again(control: ServerControl, call: VerbCall) -> None:
    body = call.body
    name, partition, offset = body.required("topic", str), body.required("partition", int), body.required("offset", int)
    body.end()
    control.groups.deliver_again(call.path["group"], name, partition, offset)


def member(call: VerbCall) -> str:
    """The name of the member that the body names."""
    names = [call.body.optional(name, str) for name in ("member", "member_id", "instance_id", "client_id")]
    call.body.end()
    given = [name for name in names if name is not None]
    if len(given) != 1:
        raise Failure("bad-request", "exactly one of member, member_id, instance_id, client_id is to be given")
    return str(given[0])


async def reset_offsets(control: ServerControl, call: VerbCall) -> Answer:
    body, group_id = call.body, call.path["group"]
    name, to = body.required("topic", str), body.any("to")
    ends = control.topics.end_offsets(name)
    partitions = body.optional("partitions", list, sorted(ends))
    body.end()
    starts = control.topics.start_offsets(name)
    for index in partitions:
        checks.whole("a partition", index, most=checks.MAX_COUNT)
    unknown = [index for index in partitions if index not in ends]
    if unknown:
        raise CannotBeDone(f"there is no partition {name}-{unknown[0]}")
    if to == "earliest":
        wanted = {one: starts[one] for one in partitions}
    elif to == "latest":
        wanted = {one: ends[one] for one in partitions}
    elif isinstance(to, int) and not isinstance(to, bool):
        wanted = dict.fromkeys(partitions, checks.whole("to", to))
    elif isinstance(to, dict) and list(to) == ["timestamp_ms"]:
        stamp_ms = checks.whole("to: timestamp_ms", to["timestamp_ms"])
        wanted = {one: _offset_at(control, name, one, stamp_ms, ends[one]) for one in partitions}
    else:
        raise WrongValue(checks.sentence("to", to, "earliest, latest, an offset or a timestamp_ms"))
    await control.groups.reset_offsets(group_id, {(name, one): offset for one, offset in wanted.items()})
    return offsets_json(control.groups.describe(group_id))


def _offset_at(control: ServerControl, name: str, partition: int, timestamp_ms: int, end: int) -> int:
    found = control.topics.records(name, partition)
    return next((one.offset for one in found if one.timestamp_ms >= timestamp_ms), end)
