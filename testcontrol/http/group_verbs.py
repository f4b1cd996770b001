"""The verbs of the control about groups. Knows no socket."""

from __future__ import annotations

from typing import Any, Final

from muster.testcontrol import expected
from muster.testcontrol.errors import CannotBeDone, WrongValue
from muster.testcontrol.http import shown
from muster.testcontrol.http.body import query_number
from muster.testcontrol.http.failures import Failure
from muster.testcontrol.http.verb import DONE, Answer, VerbCall
from muster.testcontrol.server_control import ServerControl

WAIT_MS: Final = 30_000
"""The default limit of a wait."""


def list_groups(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """List all groups."""
    groups = rehearsal.groups
    return {"groups": [shown.group(rehearsal, groups.describe(one)) for one in groups.ids()]}


def group(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Show one group. The state of a group that does not exist is Dead."""
    group_id = call.path["group"]
    view = rehearsal.groups.describe(group_id)
    more = {
        "coordinator": rehearsal.nodes.coordinator_of(group_id),
        "view": view.as_fields(),
        "waiting": rehearsal.joins.waiting(group_id),
    }
    return {**shown.group(rehearsal, view), **more}


def offsets(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Show committed offsets."""
    return shown.offsets(rehearsal.groups.describe(call.path["group"]))


async def history(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Show the history of a group."""
    last = query_number(call.query, "last", None)
    events = await rehearsal.groups.events(call.path["group"])
    everything = bool(query_number(call.query, "everything", 0))
    lines = await rehearsal.groups.history(call.path["group"], everything=everything)
    return {"events": events if last is None else events[-last:] if last else [], "timeline": lines}


async def wait_stable(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Wait until a group is stable."""
    body = call.body
    members, topic_name = body.number("members"), body.take("partitions", str)
    timeout_ms = body.number("timeout_ms", WAIT_MS)
    body.end()
    view = await rehearsal.groups.wait_stable(
        call.path["group"], members=members, partitions=topic_name, timeout_s=timeout_ms / 1000
    )
    return shown.group(rehearsal, view)


async def wait_consumed(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Wait until a topic is consumed."""
    body, group_id = call.body, call.path["group"]
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


def rebalance(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Force a rebalance."""
    rehearsal.groups.rebalance(call.path["group"])
    return DONE


def _member(call: VerbCall) -> str:
    names = [call.body.take(name, str) for name in ("member", "member_id", "instance_id", "client_id")]
    call.body.end()
    given = [name for name in names if name is not None]
    if len(given) != 1:
        raise Failure("bad-request", "exactly one of member, member_id, instance_id, client_id is to be given")
    return str(given[0])


def expire(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """End the session of a member."""
    rehearsal.groups.expire(call.path["group"], _member(call))
    return DONE


def remove(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Remove a member."""
    rehearsal.groups.remove(call.path["group"], _member(call))
    return DONE


async def reset_offsets(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Set committed offsets."""
    body, group_id = call.body, call.path["group"]
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
    return offsets(rehearsal, call)


def _offset_at(rehearsal: ServerControl, name: str, partition: int, timestamp_ms: int, end: int) -> int:
    found = rehearsal.topics.records(name, partition)
    return next((one.offset for one in found if one.timestamp_ms >= timestamp_ms), end)


def hold_joins(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Hold the joins of a group."""
    rehearsal.groups.hold_joins(call.path["group"])
    return DONE


def release_joins(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Release the joins of a group."""
    return {**DONE, "released": rehearsal.groups.release(call.path["group"])}
