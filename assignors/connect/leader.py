"""The work of a Connect group's leader (ConnectAssignor): from workers' metadata to assignments, as bytes.

`assign_eagerly` is Connect's eager strategy (protocol "default"; Kafka's EagerAssignor). All connectors and tasks are
assigned again, and stop during a rebalance. Each has exactly one worker. Any two workers' numbers of connectors and
tasks differ by at most one. The same input gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

from muster.assignors.connect import incremental
from muster.assignors.connect.work import State, Task, Work, as_hash_sets, configured_work, from_rows, to_rows
from muster.assignors.java_order import utf16
from muster.protocol.connect import (
    CONNECTOR,
    NAMES,
    ConnectAssignment,
    ConnectorTasks,
    decode_worker_state,
    encode_assignment,
)


def assign_eagerly(workers: Iterable[str], configured: Mapping[str, int]) -> dict[str, Work]:
    """Give each worker (by member id) its connectors and tasks. Raises ValueError without workers.

    `configured` has the number of tasks of each connector. All connectors are distributed first, then all tasks. A
    connector is less work than a task. If each connector had one task, and both were distributed together, one worker
    would get all connectors.
    """
    names = sorted(workers, key=utf16)
    if not names:
        raise ValueError("nobody to assign to: a group has at least one worker")
    work: dict[str, list[Task]] = {name: [] for name in names}
    for name, item in zip(cycle(names), configured_work(configured), strict=False):
        work[name].append(item)
    return {name: tuple(items) for name, items in work.items()}


CONFIG_MISMATCH = 1
"""The error that makes workers read the config topic to its end and join again."""

_VERSIONS = {name: version for version, name in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The leader's view of the config topic."""

    offset: int
    """The offset up to which the leader has read the config topic."""
    configured: Mapping[str, int]
    """The number of tasks of each connector."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The JoinGroup response that a leader got, and the last generation that the leader completed."""

    leader: str
    """The leader's member id."""
    protocol: str
    """The protocol that the members agreed on: "default" (eager), "compatible" or "sessioned"."""
    members: Sequence[tuple[str, bytes]]
    """Member ids and metadata, in the order of the response."""
    generation: int
    completed_generation: int
    """The last generation in which the leader got its assignment; -1 before the first."""


class Result(NamedTuple):
    """The leader's assignments for SyncGroup, its state for the next rebalance, and the work of each worker."""

    assignments: dict[str, bytes]
    state: State
    running: dict[str, Work]
    """The work of each worker after the rebalance. Empty when a worker has a newer configuration than the leader."""


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

    If a worker has read more of the config topic than `snapshot`, the leader uses `fresh`, a new snapshot. If `fresh`
    is not new enough, either, every worker gets CONFIG_MISMATCH. Raises MalformedMessage for metadata that cannot be
    decoded. Raises ValueError for an unknown protocol, or a leader that is not among the members.
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
        work = assign_eagerly(workers, snapshot.configured)
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
    frame.assigned = _assigned_rows(assigned)
    frame.revoked = to_rows(sorted(revoked, key=lambda item: item.number != CONNECTOR))
    return encode_assignment(frame, version)


def _assigned_rows(items: Iterable[Task]) -> list[ConnectorTasks]:
    """The rows of an assignment: Kafka passes connectors, but not tasks, through a HashSet."""
    connectors = [item for item in items if item.number == CONNECTOR]
    return to_rows([*as_hash_sets(connectors), *(item for item in items if item.number != CONNECTOR)])
