"""Rules about a state, not about one step: no member waits for ever, and the log gives the state of the core.

The rules look at groups as administrators do: DescribeGroups, OffsetFetch.
"""

from __future__ import annotations

from typing import Any

from muster.coordinator.groups.classic.group import EMPTY, STABLE
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Command, Record
from muster.protocol.message import Message
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.simulation.actor import Actor
from tests.simulation.clients import UnrulyConsumer
from tests.simulation.scenario import NO_ANSWER_FOR_MS, SETTLED_WITHIN_MS
from tests.simulation.watch import Violation
from tests.simulation.world import World


def check_parked(world: World) -> None:
    """Check that no request has waited longer for an answer than a round and a session take. Raises Violation
    (AnswersInTime).
    """
    for call in world.parked.values():
        waited_ms = world.ms - call.sent_ms - call.actor.latency_ms
        if waited_ms > NO_ANSWER_FOR_MS:
            request: Any = call.request
            what = f"{type(request).__name__} {call.number} of {call.actor.name} has waited for {waited_ms} ms"
            raise Violation("AnswersInTime", request.group_id, what)
        break  # the others were sent later, except those of slow clients


def unsettled(world: World, living: list[UnrulyConsumer]) -> tuple[str, str] | None:
    """A group that differs from what its living members make it, and how; None when all groups are settled."""
    listed = _ask(world.core, world, ListGroupsRequest()).groups
    for name in dict.fromkeys([*(one.group_id for one in listed), *(one.group_id for one in living)]):
        wrong = unrest(_ask(world.core, world, DescribeGroupsRequest([name])).groups[0], living)
        if wrong:
            return name, wrong
    return None


def unrest(described: Any, living: list[UnrulyConsumer]) -> str:
    """How a group, as DescribeGroups shows it, differs from what its living members make it; "" if it does not."""
    members = {one.member_id: one.member_assignment for one in described.members}
    own = {one.member_id: one for one in living if one.group_id == described.group_id}
    if described.group_state not in ((STABLE,) if own else (EMPTY, "Dead")) or set(own) != set(members):
        return f"is {described.group_state} with the members {list(members)}, living are {list(own)}"
    if len({one.generation for one in own.values()}) > 1:
        return f"has members in generations {[one.generation for one in own.values()]}"
    differ = [one.name for one in own.values() if one.assigned != members[one.member_id]]
    return f"shows other assignments than {differ} have" if differ else ""


def settle(world: World, living: Any, events: int) -> None:
    """Faults have stopped: every group must soon be stable with all its living members. Raises Violation (NobodyStuck).
    `living` is called each time.
    """
    end_ms = world.ms + SETTLED_WITHIN_MS
    while True:
        world.run_events(world.events + events, 3_000)
        stuck = ("", "the server is down") if world.core is None else unsettled(world, living())
        if stuck is None:
            return
        if world.ms >= end_ms:
            raise Violation("NobodyStuck", *stuck)


def check_replay(world: World) -> None:
    """Another core that reads the log must show what the records say. For settled groups it must show what this core
    shows. Raises Violation (ReplayTheSame).
    """
    if world.core is None:
        return
    other = world.replayed()
    other.loaded(world.now())
    values, offsets = written(world.records)
    limit = world.settings.group_max_size
    own = {one.group_id: one for one in _ask(world.core, world, ListGroupsRequest()).groups}
    read = {one.group_id: one for one in _ask(other, world, ListGroupsRequest()).groups}
    if own.keys() != read.keys():
        raise Violation("ReplayTheSame", "", f"the groups are {sorted(own)}, in the log {sorted(read)}")
    for name, listed in own.items():
        value = values.get(name)
        again = _ask(other, world, DescribeGroupsRequest([name])).groups[0]
        if value is not None and len(value.members) <= limit:
            if said(value) != shown(again):
                raise Violation("ReplayTheSame", name, f"records say {said(value)}, a reload shows {shown(again)}")
            if listed.group_state in (STABLE, EMPTY):
                live = _ask(world.core, world, DescribeGroupsRequest([name])).groups[0]
                if shown(live) != shown(again):
                    raise Violation("ReplayTheSame", name, f"shows {shown(live)}, after a reload {shown(again)}")
        for core in (world.core, other):
            fetched = _offsets(core, world, name)
            if fetched != offsets.get(name, {}):
                raise Violation("ReplayTheSame", name, f"records have offsets {offsets.get(name)}, shown are {fetched}")


def written(records: list[Record]) -> tuple[dict[str, GroupMetadataValue], dict[str, dict[int, int]]]:
    """The content of a log: the last value of each group, and its offsets by partition."""
    values: dict[str, Any] = {}
    offsets: dict[str, dict[int, int]] = {}
    for record in records:
        key, value = record.key, record.value
        if type(key) is GroupMetadataKey:
            values[key.group] = value
        elif type(key) is OffsetCommitKey:
            partitions = offsets.setdefault(key.group, {})
            partitions.pop(key.partition, None)
            if value is not None:
                partitions[key.partition] = value.offset
    return {name: value for name, value in values.items() if value is not None}, offsets


def said(value: GroupMetadataValue) -> tuple[object, ...]:
    """A record in the form of `shown`."""
    members = sorted(
        (one.member_id, one.group_instance_id or "", one.client_id, one.client_host, one.subscription, one.assignment)
        for one in value.members
    )
    protocol = value.protocol or "" if members else ""
    return (STABLE if members else EMPTY, value.protocol_type, protocol, members)


def shown(row: Any) -> tuple[object, ...]:
    """A group as DescribeGroups shows it."""
    members = sorted(
        (
            one.member_id,
            one.group_instance_id or "",
            one.client_id,
            one.client_host,
            one.member_metadata,
            one.member_assignment,
        )
        for one in row.members
    )
    return (row.group_state, row.protocol_type, row.protocol_data, members)


def _offsets(core: GroupCore, world: World, name: str) -> dict[int, int]:
    answer = _ask(core, world, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, None, -1, None)]))
    return {row.partition_index: row.committed_offset for topic in answer.groups[0].topics for row in topic.partitions}


def _ask(core: GroupCore | None, world: World, request: Message) -> Any:
    assert core is not None
    return core.handle(Command(request, None, Actor(world, "checker").client), world.now()).replies[0][1]
