"""The brokers of one process: which of them are live, and the actions on them. `leader_changes` moves leaders.

A node that stops hands over each partition, and then closes its connections. A killed node is cut off, and its state is
lost. A paused node does nothing. As on Kafka, other nodes lead its partitions after `broker.session.timeout.ms`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from muster.coordinator.runtime.group_coordinator.background_work import NoClient
from muster.coordinator.server.nodes.common import NODE_ACTIONS, LeadershipSettings, NodeState, WrongNode
from muster.coordinator.server.nodes.leader_changes import LeaderChanges
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics import leadership
from muster.coordinator.topics.cluster_image import Leader
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.topics import Topics
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from muster.coordinator.server.nodes.running_node import RunningNode

log = structlog.get_logger("muster.nodes")


class Cluster:
    """See the module. `nodes`: the nodes by id. `states`: the state of each node."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        job_queue: JobQueue,
        cluster_id: str,
        settings: LeadershipSettings,
        renew: Callable[[str, int], object],
    ) -> None:
        self.nodes: dict[int, RunningNode] = {}
        self.states: dict[int, NodeState] = {}
        self._topics = topics
        self._clock = clock
        self._job_queue = job_queue
        self._settings = settings
        self._changes = LeaderChanges(topics, cluster_id, self.nodes, self.states, renew)
        self._session_timers: dict[int, Timer] = {}
        """The timers of dead or paused nodes that still count as live."""
        self._balance_timer: Timer | None = None

    def begin(self, nodes: Iterable[RunningNode]) -> None:
        """Begin with these nodes, which are live."""
        for node in nodes:
            self.nodes[node.node_id] = node
            self.states[node.node_id] = NodeState.UP
        self.publish()
        if self._settings.auto_leader_rebalance_enable and len(self.nodes) > 1:
            self._start_balance_timer()

    @property
    def leaders(self) -> Mapping[str, Sequence[Leader]]:
        """The leaders of the partitions of each topic."""
        return self._topics.open.leaders

    def publish(self) -> None:
        self._changes.publish()

    def catching_up(self) -> Job[None]:
        """See `api.node.Controller`. There is nothing to apply, because no other process makes decisions."""
        yield from ()

    def changing(self, decide: Callable[[], PartitionChangeRecord | None], place: Place) -> Job[None]:
        return self._changes.changing(decide, place)

    def unregistering(self, broker_id: int) -> Job[None]:
        return self._changes.unregistering(broker_id)

    def stop(self) -> None:
        if self._balance_timer is not None:
            self._balance_timer.cancel()
        for timer in self._session_timers.values():
            timer.cancel()

    # ---- actions on nodes

    def _node(self, node_id: int, what: str) -> RunningNode:
        """The node, after the change of its state. Raises WrongNode."""
        node = self.nodes.get(node_id)
        if node is None:
            raise WrongNode(f"there is no node {node_id}; there are {', '.join(map(str, self.nodes))}")
        state = self.states[node_id]
        if state not in NODE_ACTIONS[what]:
            raise WrongNode(f"node {node_id} is {state.value}: the action {what} is not possible")
        self.states[node_id] = NODE_ACTIONS[what][state]
        return node

    async def _done(self, job: Job[None]) -> None:
        failures: list[ApiError] = []

        def guarded() -> Job[None]:
            try:
                yield from job
            except ApiError as failure:
                failures.append(failure)

        done = asyncio.Event()
        self._job_queue.run(guarded(), lambda _: done.set(), NoClient("the leaders of partitions could not be changed"))
        await done.wait()
        if failures:
            raise failures[0]

    async def stop_node(self, node_id: int) -> None:
        """Controlled shutdown: leaders move at once, then all connections end. Raises WrongNode or `ApiError`."""
        node = self._node(node_id, "stop")
        try:
            if node_id in self._topics.state.brokers:
                self._changes.apply([leadership.leaving(self._topics.state, node_id)])
            await self._done(self._changes.moving_leaders_away(node_id))
            if self.states[node_id] is not NodeState.STOPPING:
                return  # the node was killed meanwhile
            self._changes.fence(node_id)
        except ApiError:
            self.states[node_id] = NodeState.UP
            raise
        self.states[node_id] = NodeState.STOPPED
        node.stop_accepting()
        node.resign()
        await node.answered()
        await node.close_connections()
        log.info("a node has stopped", node=node_id)

    def kill_node(self, node_id: int) -> None:
        """Kill the node as by SIGKILL. Raises WrongNode."""
        node = self._node(node_id, "kill")
        node.die()
        self._topics.open.lost(node_id)
        self._expect_heartbeats_no_more(node_id)
        log.warning("a node was killed", node=node_id, others_lead_in_ms=self._settings.broker_session_timeout_ms)

    def pause_node(self, node_id: int) -> None:
        """Pause the node as by SIGSTOP: its connections stay, and it answers no request. Raises WrongNode."""
        node = self.nodes.get(node_id)
        if node is not None and not node.may_pause:
            raise WrongNode(
                f"node {node_id} is the only one: it is paused by kill -STOP of the process, or with --control"
            )
        self._node(node_id, "pause").pause()
        self._expect_heartbeats_no_more(node_id)
        log.warning("a node is paused", node=node_id, others_lead_in_ms=self._settings.broker_session_timeout_ms)

    async def resume_node(self, node_id: int) -> None:
        """Continue the node as by SIGCONT. If that fails, the node is still paused. Raises WrongNode or `ApiError`."""
        node = self._node(node_id, "resume")
        try:
            timer = self._session_timers.pop(node_id, None)
            if timer is not None:
                timer.cancel()
            await self._rejoin(node_id)
        except ApiError:
            self.states[node_id] = NodeState.PAUSED
            self._expect_heartbeats_no_more(node_id)
            raise
        self.states[node_id] = NodeState.UP
        node.resume()
        log.info("a node continues", node=node_id)

    async def _rejoin(self, node_id: int) -> None:
        registered = self._topics.state.brokers.get(node_id)
        if registered is None or not registered.fenced:
            return
        await self._done(self._changes.moving_leaders_away(node_id))  # the partitions that other nodes do not lead yet
        self._changes.apply([leadership.unfenced(self._topics.state, node_id)])
        await self._done(self._changes.rejoining_replicas(node_id))

    def _expect_heartbeats_no_more(self, node_id: int) -> None:
        """Expect no more heartbeats of a node: after the session timeout the node counts as dead."""
        registered = self._topics.state.brokers.get(node_id)
        if node_id not in self._session_timers and registered is not None and not registered.fenced:
            self._start_session_timer(node_id)

    def _start_session_timer(self, node_id: int) -> None:
        due_ms = self._clock.mono_ms() + self._settings.broker_session_timeout_ms
        self._session_timers[node_id] = self._clock.call_at(due_ms, lambda: self._session_expired(node_id))

    def _session_expired(self, node_id: int) -> None:
        if self._session_timers.pop(node_id, None) is not None:
            self._job_queue.run(
                self._replacing_dead(node_id), _nothing, NoClient("the partitions of a dead node cannot be led")
            )

    def _replacing_dead(self, node_id: int) -> Job[None]:
        try:
            registered = self._topics.state.brokers.get(node_id)
            if registered is not None and not registered.fenced:
                self._changes.fence(node_id)
            yield from self._changes.moving_leaders_away(node_id, anew=self.states[node_id] is not NodeState.PAUSED)
            log.info("others lead the partitions of a dead node", node=node_id)
        except ApiError as failure:
            # the disk has failed: try again after the session timeout
            log.error("others cannot lead the partitions of a dead node yet", node=node_id, reason=failure.message)
            self._start_session_timer(node_id)

    async def return_node(self, node_id: int) -> None:
        """Start the node again at its previous ports. Raises WrongNode, `ApiError`, or OSError for a used port."""
        before = self.states.get(node_id)
        node = self._node(node_id, "return")
        try:
            timer = self._session_timers.pop(node_id, None)
            if timer is not None:
                timer.cancel()
                await self._done(self._replacing_dead(node_id))
            node.node.forget_sessions()
            await node.listen()
            self._changes.register(node_id)
        except (ApiError, OSError):
            node.die()
            assert before is not None
            self.states[node_id] = before
            raise
        self.states[node_id] = NodeState.UP
        self.publish()
        await self._done(self._changes.rejoining_replicas(node_id))
        log.info("a node has returned", node=node_id)

    # ---- preferred leaders

    def _start_balance_timer(self) -> None:
        interval_ms = 1_000 * self._settings.leader_imbalance_check_interval_seconds
        self._balance_timer = self._clock.call_at(
            self._clock.mono_ms() + interval_ms, self._elect_preferred_leaders, interval_ms
        )

    def _elect_preferred_leaders(self) -> None:
        self._job_queue.run(
            self._changes.electing_preferred_leaders(), _nothing, NoClient("preferred leaders cannot be elected")
        )
        self._start_balance_timer()


def _nothing(_: object) -> None:
    pass
