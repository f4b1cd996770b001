"""The verbs of the control about groups. Knows no socket."""

from __future__ import annotations

from typing import Final

from muster.testcontrol import checks
from muster.testcontrol.errors import CannotBeDone, WrongValue
from muster.testcontrol.http.contract import Answer, Failure, VerbCall, group_json, offsets_json, query_number
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.views import GroupView

WAIT_MS: Final = 30_000
"""The default limit of a wait."""


def list_groups(control: ServerControl, _: VerbCall) -> Answer:
    """List all groups."""
    groups = control.groups
    return {"groups": [group_json(control, groups.describe(one)) for one in groups.ids()]}


def group(control: ServerControl, call: VerbCall) -> Answer:
    """Show one group. The state of a group that does not exist is Dead."""
    group_id = call.path["group"]
    view = control.groups.describe(group_id)
    more = {
        "coordinator": control.nodes.coordinator_of(group_id),
        "view": view.as_fields(),
        "waiting": control.joins.waiting(group_id),
    }
    return {**group_json(control, view), **more}


async def history(control: ServerControl, call: VerbCall) -> Answer:
    """Show the history of a group."""
    last = query_number(call.query, "last", None)
    events = await control.groups.events(call.path["group"])
    everything = bool(query_number(call.query, "everything", 0))
    lines = await control.groups.history(call.path["group"], everything=everything)
    return {"events": events if last is None else events[-last:] if last else [], "timeline": lines}


async def wait_stable(control: ServerControl, call: VerbCall) -> Answer:
    """Wait until a group is stable."""
    body = call.body
    members, topic_name = body.number("members"), body.optional("partitions", str)
    timeout_s = body.number("timeout_ms", WAIT_MS) / 1000
    body.end()
    group_id = call.path["group"]
    view = await control.groups.wait_stable(group_id, members=members, partitions=topic_name, timeout_s=timeout_s)
    return group_json(control, view)


async def wait_consumed(control: ServerControl, call: VerbCall) -> Answer:
    """Wait until a topic is consumed."""
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


def member(call: VerbCall) -> str:
    """The name of the member that the body names."""
    names = [call.body.optional(name, str) for name in ("member", "member_id", "instance_id", "client_id")]
    call.body.end()
    given = [name for name in names if name is not None]
    if len(given) != 1:
        raise Failure("bad-request", "exactly one of member, member_id, instance_id, client_id is to be given")
    return str(given[0])


async def reset_offsets(control: ServerControl, call: VerbCall) -> Answer:
    """Set committed offsets."""
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
