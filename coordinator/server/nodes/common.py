"""The objects that the nodes of a process share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.node import Controller, Node
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.leaderships import ByPartition
from muster.coordinator.runtime.transaction_coordinator.other_nodes import Peers
from muster.coordinator.security.authorizer import Authorizer
from muster.coordinator.server.machine import Machine
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.topics import Topics


class Common(NamedTuple):
    """See the module."""

    machine: Machine
    clock: Clock
    slices: JobQueue
    topics: Topics
    authorizer: Authorizer | None
    open_dispatcher: Callable[[Node], Dispatcher]
    observe: Callable[[int], Any]
    """Makes the observer of a partition of groups, which all nodes share."""
    observe_transactions: Callable[[int], Any]
    transaction_history: str | None
    transactions_loaded: Callable[[], object]
    rack: str | None
    """The rack of the first node."""
    is_bounded: bool
    """Whether the number of the process's files is limited."""
    group_leader_shards: ByPartition[GroupShard] | None
    """The shards of the nodes that lead. None means that the process has one node."""
    transaction_leader_shards: ByPartition[Any] | None
    controller: Controller | None
    peers: Peers | None
    """The nodes of other processes. None means that no other process exists."""
    post: Callable[[Callable[[], object]], object]
    """Runs a callable on the event loop soon, from any thread."""
