"""What the nodes of a process share."""

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
    """Makes what is told of a partition of groups; the same for all nodes."""
    observe_transactions: Callable[[int], Any]
    transaction_history: str | None
    transactions_loaded: Callable[[], object]
    rack: str | None
    """Of the first node."""
    is_bounded: bool
    """Whether the process may have so many files only."""
    group_leader_shards: ByPartition[GroupShard] | None
    """The shards of the nodes that lead; None: there is one node."""
    transaction_leader_shards: ByPartition[Any] | None
    controller: Controller | None
    peers: Peers | None
    """The nodes of other processes; None: there are none."""
    post: Callable[[Callable[[], object]], object]
    """Runs a callable on the event loop soon, from any thread."""
