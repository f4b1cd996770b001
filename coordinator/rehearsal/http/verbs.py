"""The verbs of the control: each takes what a request says and gives what its answer has. Knows no socket."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from muster.coordinator.rehearsal import expected
from muster.coordinator.rehearsal.errors import CannotBeDone, WrongValue
from muster.coordinator.rehearsal.faults.rule import Rule
from muster.coordinator.rehearsal.http import shown
from muster.coordinator.rehearsal.http.body import Fields, query_number
from muster.coordinator.rehearsal.http.failures import Failure
from muster.coordinator.rehearsal.rehearsal import Rehearsal
from muster.coordinator.rehearsal.topics import NewRecord
from muster.coordinator.rehearsal.virtual_time import LIMIT_MS, SETTLE_MS, TIMEOUT_MS
from muster.version import VERSION

MOST_PRODUCED: Final = 5_000
"""Records of one request."""
MOST_READ: Final = 1_000
"""Records of one answer."""
MOST_READ_BYTES: Final = 1024 * 1024
"""Bytes of their keys and values; at least one record is told."""
WAIT_MS: Final = 30_000
"""How long a wait lasts if nothing else is said."""


class Asked(NamedTuple):
    """A request. `path`: what its path names, by the names in the contract's path."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Fields


Answer = Mapping[str, Any]
Verb = Callable[[Rehearsal, Asked], Answer | Awaitable[Answer]]
DONE: Final[Answer] = {"done": True}


@cache
def contract() -> dict[str, Any]:
    """`openapi.json`."""
    read: dict[str, Any] = json.loads(files(__package__).joinpath("openapi.json").read_text(encoding="utf-8"))
    return read


def describe(_: Rehearsal, __: Asked) -> Answer:
    """The contract itself."""
    return contract()


def server(rehearsal: Rehearsal, _: Asked) -> Answer:
    """`Server`."""
    running = rehearsal.server
    firsts = [node.bound[0] for node in running.nodes if node.bound]
    return {
        "version": VERSION,
        "cluster_id": running.node.cluster.cluster_id,
        "bootstrap_servers": ",".join(f"{one.host or '127.0.0.1'}:{one.port}" for one in firsts),
        "nodes": rehearsal.nodes.ids(),
        "in_memory": running.config.data_dir is None,
        "virtual_time": rehearsal.time.is_movable,
    }


# ---- topics


def list_topics(rehearsal: Rehearsal, _: Asked) -> Answer:
    """All topics."""
    return {"topics": [shown.topic(rehearsal, name) for name in rehearsal.topics.names()]}


def topic(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """One topic."""
    return shown.topic(rehearsal, asked.path["topic"])


async def create_topic(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Make a topic."""
    name, partitions = asked.body.need("name", str), asked.body.number("partitions", least=1)
    configs = asked.body.take("configs", dict, {})
    asked.body.end()
    await rehearsal.topics.create(name, partitions, configs)
    return shown.topic(rehearsal, name)


async def grow_topic(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Have more partitions."""
    partitions = asked.body.need("partitions", int)
    asked.body.end()
    await rehearsal.topics.grow(asked.path["topic"], partitions)
    return shown.topic(rehearsal, asked.path["topic"])


async def delete_topic(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Delete a topic."""
    await rehearsal.topics.delete(asked.path["topic"])
    return DONE


async def produce(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Append records."""
    given = asked.body.need("records", list)
    if len(given) > MOST_PRODUCED:
        raise Failure("bad-request", f"there are {len(given)} records; at most {MOST_PRODUCED} were expected")
    rows = [_new_record(Fields(row)) for row in given]
    asked.body.end()
    places = await rehearsal.topics.produce(asked.path["topic"], rows)
    return {"records": [{"partition": partition, "offset": offset} for partition, offset in places]}


def _new_record(row: Fields) -> NewRecord:
    headers = row.take("headers", dict, {})
    made = NewRecord(
        _bytes(row, "value"),
        _bytes(row, "key"),
        row.number("partition"),
        tuple((name, expected.content(f"header {name}", value)) for name, value in headers.items()),
        row.number("timestamp_ms"),
    )
    row.end()
    return made


def _bytes(row: Fields, name: str) -> bytes | None:
    text, encoded = row.take(name, str), row.take(f"{name}_base64", str)
    if encoded is None:
        return None if text is None else str(text).encode()
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise Failure("bad-request", f"{name}_base64 is no base64: {error}") from error


def records(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Records of a partition."""
    name, query = asked.path["topic"], asked.query
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


# ---- groups


def list_groups(rehearsal: Rehearsal, _: Asked) -> Answer:
    """All groups."""
    groups = rehearsal.groups
    return {"groups": [shown.group(rehearsal, groups.describe(one)) for one in groups.ids()]}


def group(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """One group; one that is not there is Dead."""
    return shown.group(rehearsal, rehearsal.groups.describe(asked.path["group"]))


def offsets(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Committed offsets."""
    return shown.offsets(rehearsal.groups.describe(asked.path["group"]))


async def history(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """What happened in a group."""
    last = query_number(asked.query, "last", None)
    events = await rehearsal.groups.events(asked.path["group"])
    lines = await rehearsal.groups.history(asked.path["group"])
    return {"events": events if last is None else events[-last:] if last else [], "timeline": lines}


async def wait_stable(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Wait until a group is stable."""
    body = asked.body
    members, topic_name = body.number("members"), body.take("partitions", str)
    timeout_ms = body.number("timeout_ms", WAIT_MS)
    body.end()
    view = await rehearsal.groups.wait_stable(
        asked.path["group"], members=members, partitions=topic_name, timeout_s=timeout_ms / 1000
    )
    return shown.group(rehearsal, view)


async def wait_consumed(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Wait until a topic is consumed."""
    body, group_id = asked.body, asked.path["group"]
    name, lag = body.need("topic", str), body.number("lag", 0)
    timeout_ms = body.number("timeout_ms", WAIT_MS)
    body.end()
    starts, ends = rehearsal.topics.start_offsets(name), rehearsal.topics.end_offsets(name)
    left = lag
    up_to: dict[tuple[str, int], int] = {}
    if not lag:
        up_to = {(name, index): end for index, end in ends.items()}
        view = await rehearsal.groups.wait_consumed(group_id, name, up_to=up_to, timeout_s=timeout_ms / 1000)
        return shown.offsets(view)

    def is_near(view: Any) -> bool:
        committed = view.offsets.get(name, {})
        behind = [max(end - int(committed.get(one, starts[one])), 0) for one, end in ends.items()]
        return sum(behind) <= int(left)

    what = f"has committed all but {lag} records of {name}"
    view = await rehearsal.groups.wait_until(group_id, is_near, what=what, topics=name, timeout_s=timeout_ms / 1000)
    return shown.offsets(view)


def rebalance(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Force a rebalance."""
    rehearsal.groups.rebalance(asked.path["group"])
    return DONE


def _member(asked: Asked) -> str:
    names = [asked.body.take(name, str) for name in ("member", "member_id", "instance_id", "client_id")]
    asked.body.end()
    given = [name for name in names if name is not None]
    if len(given) != 1:
        raise Failure("bad-request", "exactly one of member, member_id, instance_id, client_id is to be given")
    return str(given[0])


def expire(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """End the session of a member."""
    rehearsal.groups.expire(asked.path["group"], _member(asked))
    return DONE


def remove(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Remove a member."""
    rehearsal.groups.remove(asked.path["group"], _member(asked))
    return DONE


async def reset_offsets(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Set committed offsets."""
    body, group_id = asked.body, asked.path["group"]
    name, to = body.need("topic", str), body.any("to")
    ends = rehearsal.topics.end_offsets(name)
    partitions = body.take("partitions", list, sorted(ends))
    body.end()
    starts = rehearsal.topics.start_offsets(name)
    unknown = [expected.whole("a partition", one, most=expected.MOST_COUNT) for one in partitions]
    unknown = [one for one in unknown if one not in ends]
    if unknown:
        raise CannotBeDone(f"there is no partition {name}-{unknown[0]}")
    if to == "earliest":
        wanted = {one: starts[one] for one in partitions}
    elif to == "latest":
        wanted = {one: ends[one] for one in partitions}
    elif isinstance(to, int) and not isinstance(to, bool):
        wanted = dict.fromkeys(partitions, expected.whole("to", to))
    elif isinstance(to, dict) and list(to) == ["timestamp_ms"]:
        stamp_ms = expected.whole("to: timestamp_ms", to["timestamp_ms"])
        wanted = {one: _offset_at(rehearsal, name, one, stamp_ms, ends[one]) for one in partitions}
    else:
        raise WrongValue(expected.sentence("to", to, "earliest, latest, an offset or a timestamp_ms"))
    await rehearsal.groups.reset_offsets(group_id, {(name, one): offset for one, offset in wanted.items()})
    return offsets(rehearsal, asked)


def _offset_at(rehearsal: Rehearsal, name: str, partition: int, timestamp_ms: int, end: int) -> int:
    found = rehearsal.topics.records(name, partition)
    return next((one.offset for one in found if one.timestamp_ms >= timestamp_ms), end)


def hold_joins(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Keep the joins of a group."""
    rehearsal.groups.hold_joins(asked.path["group"])
    return DONE


def release_joins(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Let the joins of a group go."""
    rehearsal.groups.release(asked.path["group"])
    return DONE


# ---- faults


def list_faults(rehearsal: Rehearsal, _: Asked) -> Answer:
    """The rules."""
    return {"rules": [rule.to_json() for rule in rehearsal.faults.rules]}


def add_fault(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Put a rule in force."""
    return rehearsal.faults.put(Rule.of(asked.body.given)).to_json()


def clear_faults(rehearsal: Rehearsal, _: Asked) -> Answer:
    """Take all rules away."""
    rehearsal.scenarios.end_all()
    rehearsal.faults.clear()
    return DONE


def fault(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """One rule."""
    return rehearsal.faults.find(asked.path["rule"]).to_json()


def remove_fault(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Take a rule away."""
    rehearsal.faults.remove(asked.path["rule"])
    return DONE


def release_fault(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Let go what a rule holds."""
    return rehearsal.faults.release(asked.path["rule"]).to_json()


def fault_log(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """What was hit."""
    log = rehearsal.faults.log
    return {"hits": log.after(query_number(asked.query, "after", 0)), "forgotten": log.forgotten}


def scenarios(rehearsal: Rehearsal, _: Asked) -> Answer:
    """Scenarios that there are, and those that run."""
    return {"kinds": rehearsal.scenarios.kinds(), "running": [one.to_json() for one in rehearsal.scenarios.running]}


async def start_scenario(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Start a scenario."""
    found: Answer = (await rehearsal.scenarios.start(asked.path["scenario"], asked.body.given)).to_json()
    return found


def scenario(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """One that runs."""
    return rehearsal.scenarios.find(asked.path["scenario"]).to_json()


def end_scenario(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """End one that runs."""
    rehearsal.scenarios.end(asked.path["scenario"])
    return DONE


# ---- time


def time(rehearsal: Rehearsal, _: Asked) -> Answer:
    """The time."""
    return rehearsal.time.now()._asdict()


def freeze(rehearsal: Rehearsal, _: Asked) -> Answer:
    """Let time stand still."""
    return rehearsal.time.freeze()._asdict()


def thaw(rehearsal: Rehearsal, _: Asked) -> Answer:
    """Let time go on."""
    return rehearsal.time.thaw()._asdict()


async def advance(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Let time pass at once."""
    ms = asked.body.need("ms", int)
    asked.body.end()
    return (await rehearsal.time.advance(ms))._asdict()


async def run_until(rehearsal: Rehearsal, asked: Asked) -> Answer:
    """Let time pass until something is so."""
    body = asked.body
    condition, group_id = body.need("condition", str), body.take("group", str)
    members, name = body.number("members"), body.take("partitions", str)
    pace = {
        "limit_ms": body.number("limit_ms", LIMIT_MS),
        "settle_ms": body.number("settle_ms", SETTLE_MS),
        "timeout_ms": body.number("timeout_ms", TIMEOUT_MS),
    }
    body.end()
    if (condition == "idle") != (group_id is None) or condition not in ("idle", "stable"):
        raise Failure("bad-request", "condition is to be idle, or stable with a group")
    return (await rehearsal.run_until(group_id, members, name, **pace))._asdict()


# ---- nodes


def list_nodes(rehearsal: Rehearsal, _: Asked) -> Answer:
    """The brokers."""
    nodes = rehearsal.nodes
    return {"nodes": [shown.node(nodes.describe(one)) for one in nodes.ids()]}


def on_node(verb: str) -> Verb:
    """What is done to a broker."""

    async def do(rehearsal: Rehearsal, asked: Asked) -> Answer:
        text = asked.path["node"]
        if not text.isdigit() or int(text) not in rehearsal.nodes.ids():
            raise Failure("not-found", f"there is no node {text}")
        done = getattr(rehearsal.nodes, verb)(int(text))
        if done is not None:
            await done
        return list_nodes(rehearsal, asked)

    return do
