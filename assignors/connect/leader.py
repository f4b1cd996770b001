"""The work of a Connect group's leader (ConnectAssignor): from workers' metadata to assignments, as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.assignors.connect import eager, incremental
from muster.assignors.connect.state import State
from muster.assignors.connect.work import Task, Work, as_hash_sets, from_rows, to_rows
from muster.protocol.connect import (
    CONNECTOR,
    NAMES,
    ConnectAssignment,
    ConnectorTasks,
    decode_worker_state,
    encode_assignment,
)

CONFIG_MISMATCH = 1
"""The error that makes workers read the config topic to its end and join again."""

_VERSIONS = {name: version for version, name in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The leader's view of the config topic."""

    offset: int
    """How far the leader has read."""
    configured: Mapping[str, int]
    """The connectors, and the number of tasks of each."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The JoinGroup response that a leader got, and its position."""

    leader: str
    """Its own member id."""
    protocol: str
    """The protocol that the group agreed on: "default" (eager), "compatible" or "sessioned"."""
    members: Sequence[tuple[str, bytes]]
    """Member ids and metadata, in the order of the response."""
    generation: int
    completed_generation: int
    """The last generation in which the leader got its assignment; -1 before the first."""


class Result(NamedTuple):
    """The leader's assignments for SyncGroup, its state for the next rebalance, and the work of each worker from now
    on.
    """

    assignments: dict[str, bytes]
    state: State
    running: dict[str, Work]
    """Empty when the leader's configuration is behind that of others."""


def perform(
    rebalance: Rebalance,
    state: State,
    now_ms: int,
    snapshot: Snapshot,
    *,
    fresh: Snapshot | None = None,
    max_delay_ms: int = 300_000,
) -> Result:
    """Compute the assignments of all workers by the protocol that the group agreed on.

    A leader whose `snapshot` is behind a worker's uses `fresh`, a snapshot that it has just made. When that is behind
    too, every worker gets CONFIG_MISMATCH. Raises MalformedMessage for metadata that cannot be decoded. Raises
    ValueError for an unknown protocol, or a leader that is not among the members.
    """
    version = _VERSIONS.get(rebalance.protocol)
    if version is None:
        raise ValueError(
            f"{rebalance.protocol!r} is no protocol of Connect: one of {', '.join(_VERSIONS)} was expected"
        )
    workers = {member: decode_worker_state(metadata)[1] for member, metadata in rebalance.members}
    if rebalance.leader not in workers:
        raise ValueError(f"the leader {rebalance.leader!r} is not among the members {', '.join(workers) or '(none)'}")
    frame = ConnectAssignment(leader=rebalance.leader, leader_url=workers[rebalance.leader].url)
    frame.offset = max(worker.offset for worker in workers.values())
    if snapshot.offset < frame.offset:
        if fresh is None or fresh.offset < frame.offset:
            frame.error = CONFIG_MISMATCH
            refusal = encode_assignment(frame, version)
            return Result(dict.fromkeys(workers, refusal), state, {})
        snapshot = fresh
        frame.offset = fresh.offset
    if version == 0:
        work = eager.assign(workers, snapshot.configured)
        return Result({name: _encode(frame, work[name], version) for name in workers}, state, work)
    changes, frame.delay_ms, state = incremental.assign(
        state,
        now_ms,
        {name: from_rows(one.assignment.assigned) if one.assignment else () for name, one in workers.items()},
        snapshot.configured,
        max_delay_ms=max_delay_ms,
        generation=rebalance.generation,
        completed_generation=rebalance.completed_generation,
    )
    return Result(
        {name: _encode(frame, changes[name].assigned, version, changes[name].revoked) for name in workers},
        state,
        {name: changes[name].running for name in workers},
    )


def _encode(frame: ConnectAssignment, assigned: Work, version: int, revoked: Work = ()) -> bytes:
    """One worker's assignment, with the rows in Kafka's order."""
    frame.assigned = _assigned_rows(assigned)
    frame.revoked = to_rows(sorted(revoked, key=lambda item: item.number != CONNECTOR))
    return encode_assignment(frame, version)


def _assigned_rows(items: Iterable[Task]) -> list[ConnectorTasks]:
    """The rows of an assignment: Kafka passes connectors, but not tasks, through a HashSet."""
    connectors = [item for item in items if item.number == CONNECTOR]
    return to_rows([*as_hash_sets(connectors), *(item for item in items if item.number != CONNECTOR)])
