"""The objects of the server in the form of the contract."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from muster.coordinator.topics.names import INTERNAL_TOPICS
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import Record
from muster.testcontrol.views import GroupView, MemberView, Owned


def topic(rehearsal: ServerControl, name: str) -> dict[str, Any]:
    """The contract's `Topic`. Raises CannotBeDone when it does not exist."""
    starts, ends = rehearsal.topics.start_offsets(name), rehearsal.topics.end_offsets(name)
    leaders = rehearsal.server.cluster.leaders[name]
    return {
        "name": name,
        "internal": name in INTERNAL_TOPICS,
        "partitions": [
            {
                "partition": index,
                "leader": leaders[index].broker_id,
                "start_offset": starts[index],
                "end_offset": ends[index],
            }
            for index in sorted(ends)
        ],
    }


def record(one: Record) -> dict[str, Any]:
    """The contract's `Record`."""
    return {
        "partition": one.partition,
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "key": _text(one.key),
        "value": _text(one.value),
        "key_base64": _base64(one.key),
        "value_base64": _base64(one.value),
        "headers": {name: _text(value) or "" for name, value in one.headers},
        "headers_base64": [[name, _base64(value)] for name, value in one.headers],
    }


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def group(rehearsal: ServerControl, view: GroupView) -> dict[str, Any]:
    """The contract's `Group`."""
    leader = next((one.member_id for one in view.members if one.is_leader), None)
    return {
        "group": view.group_id,
        "type": view.kind or "classic",
        "state": view.state,
        "generation": view.generation,
        "protocol": view.protocol,
        "leader": leader,
        "coordinator": view.node,
        "held": rehearsal.joins.holds(view.group_id),
        "members": [_member(one) for one in view.members],
    }


def _member(one: MemberView) -> dict[str, Any]:
    return {
        "member_id": one.member_id,
        "instance_id": one.instance_id,
        "client_id": one.client_id,
        "host": one.host,
        "assignment": _owned(one.assignment),
        "owned": _owned(one.revoking),
        "subscription": list(one.subscribed),
        "epoch": one.epoch if one.protocol == "consumer" else None,
        "doing": one.doing,
        "session_timeout_ms": one.session_timeout_ms,
    }


def _owned(owned: Owned) -> list[dict[str, Any]]:
    return [{"topic": name, "partitions": list(partitions)} for name, partitions in sorted(owned.items())]


def offsets(view: GroupView) -> dict[str, Any]:
    """The contract's `Offsets`."""
    rows, total = [], 0
    for name, committed in sorted(view.offsets.items()):
        ends: Mapping[int, int] = view.end_offsets.get(name, {})
        for index, offset in sorted(committed.items()):
            end = ends.get(index)
            lag = None if end is None else max(end - offset, 0)
            total += lag or 0
            rows.append({"topic": name, "partition": index, "offset": offset, "end_offset": end, "lag": lag})
    return {"offsets": rows, "lag": total}


def node(view: NodeView) -> dict[str, Any]:
    """The contract's `Node`."""
    return {
        "node": view.node_id,
        "state": view.state,
        "rack": view.rack,
        "addresses": list(view.addresses),
        "connections": view.connections,
        "leads": view.leads,
        "coordinates": view.coordinates,
    }
