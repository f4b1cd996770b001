"""One broker of the process: its listeners, connections and shards. The image says which partitions a broker leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.node import Node
from muster.coordinator.api.unsent import Unsent
from muster.coordinator.config import Config
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.log.storage.open_files import OF_THIS_PROCESS
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.listener import PLAINTEXT, Listener, ListenerAddress
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.net.sockets import with_port
from muster.coordinator.properties.live import Live
from muster.coordinator.runtime.group_coordinator.settings import ShardSettings
from muster.coordinator.runtime.group_coordinator.shard import WHAT
from muster.coordinator.runtime.group_coordinator.shards import DynamicGroupConfigs, group_shards
from muster.coordinator.runtime.loader import Loader
from muster.coordinator.runtime.routing import Leaderships, Routing
from muster.coordinator.runtime.shard import CoordinatorShard
from muster.coordinator.runtime.share_coordinator.share_states import Place, ShareStates
from muster.coordinator.runtime.share_partitions.dead_letters import DeadLetterQueues
from muster.coordinator.runtime.share_partitions.share_partitions import SharePartitions
from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
from muster.coordinator.server.nodes.common import SharedByNodes
from muster.coordinator.server.nodes.connection_limits import ConnectionLimits
from muster.coordinator.server.nodes.node_clock import NodeClock
from muster.coordinator.server.nodes.security import ListenerSecurity
from muster.coordinator.server.nodes.share_events import ShareEvents
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.file_limits import PROCESS_FILES
from muster.coordinator.topics.cluster_image import ClusterImage, Endpoint
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC

log = structlog.get_logger("muster.server")

CLOSE_MS: Final = 2_000
"""How long a stop waits for clients to receive their answers."""
ANSWER_ITERATIONS: Final = 200
"""Over how many iterations of the event loop a stopping node answers waiting requests."""
RENEWAL_CHECK_MS: Final = 5_000
"""How often the node checks whether certificate files have changed."""


class Bound(NamedTuple):
    """A listener that accepts: its name in Kafka, the requested host, and the real port."""

    listener: str
    host: str
    port: int


class RunningNode:
    """See the module. `node`: the node as its handlers see it. `bound`: where the node listens."""

    def __init__(self, config: Config, live: Live, common: SharedByNodes) -> None:
        self.node_id = config.node_id
        self.config = config
        self.live = live
        self.bound: list[Bound] = []
        self._common = common
        may_pause = config.nodes > 1 or common.machine.may_pause_one_node
        self._own_clock = NodeClock(common.clock) if may_pause else None
        self._clock: Clock = self._own_clock or common.clock
        self._listeners: list[Listener] = []
        self._next_check: Timer | None = None
        self._dispatcher: Dispatcher
        self._security = ListenerSecurity(
            live,
            common.machine,
            self._clock.machine,
            common.post,
            common.topics,
            common.topics.logs,
            lambda: self.node.delegation_tokens,
        )
        self._open_shards()
        self._connections = ConnectionLimits(config, live, self.node, lambda *which: self._dispatcher.throttled(*which))
        common.topics.subscribe_quotas(self._connections.changed)
        common.topics.subscribe_features(self.node.features_changed)
        self._connections.load(common.topics.state.quotas)

    # ---- the shards

    def _open_shards(self) -> None:
        """Open the shards of all partitions. Each shard becomes active when the node leads it."""
        common, config = self._common, self.config
        topics, clock, job_queue = common.topics, self._clock, common.job_queue
        # The hash of a group's topics includes a rack. The hash must stay the same when the group moves to another
        # node, so the first node's rack is used.
        settings = replace(config.settings(GroupSettings), broker_rack=common.rack)
        if config.assignors is not None:
            settings = replace(settings, group_consumer_assignors=tuple(config.assignors))
        linger_ms = config.settings(ShardSettings).group_coordinator_append_linger_ms
        shards = group_shards(
            topics,
            clock,
            settings,
            config.settings(ShardSettings),
            common.observe,
            lambda producer_ids: self.transactions.known_producers(producer_ids),
            job_queue,
            config.assignors,
            lambda: self.share_states,
            common.figures,
        )
        self.routing = Routing(shards)
        is_here = partial(topics.open.is_here, GROUP_OFFSETS_TOPIC)
        self.leaderships = Leaderships(self.node_id, [one.runtime for one in shards], clock, WHAT, is_here)
        group_configs = DynamicGroupConfigs(self.routing, self.live)
        topics.dynamic_configs.subscribe(group_configs.broker_reconfigured)
        topics.dynamic_configs.subscribe_groups(group_configs.configured, topics.state)
        for shard in shards:
            topics.subscribe(shard.topics_changed)
        self.transactions = Transactions(
            topics,
            clock,
            job_queue,
            common.group_leader_shards or shards,
            self._transaction_settings,
            observe=common.observe_transactions,
            linger_ms=linger_ms,
            history=common.transaction_history,
            loaded=common.transactions_loaded,
            node_id=self.node_id,
            leaders=lambda: topics.open.leaders[TRANSACTION_STATE_TOPIC],
            leader_shards=common.transaction_leader_shards,
            peers=common.peers,
        )
        self.share_states = ShareStates(
            topics,
            clock,
            job_queue,
            self._share_settings,
            Place(
                self.node_id,
                lambda: topics.open.leaders[SHARE_STATE_TOPIC],
                common.share_leader_shards,
                common.peers,
            ),
        )
        self._unsent = Unsent(clock.machine, config.settings(NetSettings).muster_queued_max_response_bytes)
        self.node = Node(
            clock=clock,
            topics=topics,
            routing=self.routing,
            transactions=self.transactions,
            persister=self.share_states,
            config=self.live,
            cluster=ClusterImage("", self.node_id, self.node_id, {}, topics.open.leaders),
            authorizer=common.authorizer,
            job_queue=job_queue,
            unsent=self._unsent,
            draw_uuid=common.machine.draw_uuid,
            draw_uuid_text=common.machine.draw_uuid_text,
            fetch_sessions=topics.settings.max_incremental_fetch_session_cache_slots,
            controller=common.controller,
            client_reports=common.client_reports,
            peers=common.peers,
        )
        run_behind = self.node.run_behind
        queues = DeadLetterQueues(topics, clock, self.live, run_behind)
        shares = SharePartitions(
            clock,
            self.share_states,
            queues,
            run_behind,
            self.live,
            lambda: topics.state.features,
            ShareEvents(topics, clock, self.routing, common.observe, common.peers).report,
        )
        topics.dynamic_configs.subscribe_groups(shares.configured, topics.state)
        topics.subscribe_features(shares.features_changed)
        self.node.share_partitions = self.share_partitions = shares

    def _transaction_settings(self) -> Any:
        # imported here: most servers have no transactions, and making the class takes longer than the rest of the start
        from muster.coordinator.transactions.commands import TransactionSettings

        return self.config.settings(TransactionSettings)

    def _share_settings(self) -> tuple[Any, int]:
        # imported here: most servers have no share groups
        from muster.coordinator.runtime.share_coordinator.settings import ShareShardSettings
        from muster.coordinator.share_state.core import ShareStateSettings

        linger_ms = self.config.settings(ShareShardSettings).share_coordinator_append_linger_ms

        return self.config.settings(ShareStateSettings), linger_ms

    def shards_of(self, topic: str) -> Sequence[CoordinatorShard[Any]]:
        """The shards of a coordinator's topic, in order; none while the topic does not exist."""
        routings: dict[str, Routing[Any]] = {
            GROUP_OFFSETS_TOPIC: self.routing,
            TRANSACTION_STATE_TOPIC: self.transactions.routing,
            SHARE_STATE_TOPIC: self.share_states.routing,
        }
        return [shard.runtime for shard in routings[topic].shards]

    def load(self, loader: Loader) -> None:
        """At a start: load the shards that the node leads."""
        topics = self._common.topics
        for shard in self.leaderships.new(topics.open.leaders[GROUP_OFFSETS_TOPIC]):
            partition = topics.open.partition(GROUP_OFFSETS_TOPIC, shard.partition)
            loader.add(shard.start(), 0 if partition is None else partition.log.size_bytes)

    def update_image(self, image: ClusterImage) -> None:
        """Use the new image of brokers and leaders."""
        self.node.cluster = image._replace(node_id=self.node_id)

    def resign_lost_shards(self) -> None:
        """Let the shards resign that the node no longer leads."""
        leaders = self.node.cluster.leaders
        for topic, held in self._leaderships():
            held.leave(leaders[topic])

    def activate_shards(self) -> None:
        """Make the shards active that the node leads now."""
        leaders = self.node.cluster.leaders
        for topic, held in self._leaderships():
            held.take(leaders[topic])

    def _leaderships(self) -> Iterator[tuple[str, Leaderships]]:
        """The active shards of each coordinator whose topic exists."""
        yield GROUP_OFFSETS_TOPIC, self.leaderships
        if self.transactions.leaderships is not None:
            yield TRANSACTION_STATE_TOPIC, self.transactions.leaderships
        if self.share_states.leaderships is not None:
            yield SHARE_STATE_TOPIC, self.share_states.leaderships

    # ---- the connections

    @property
    def limits(self) -> Limits | None:
        """The limits of the open connections. None while the node does not accept connections."""
        return self._connections.limits

    def connection_count(self) -> int:
        """The number of open connections."""
        return 0 if self.limits is None else len(self.limits)

    def descriptors(self) -> Iterator[int]:
        """The descriptors of the node's sockets: of its listeners and its connections."""
        yield from (one.bound_descriptor for one in self._listeners)
        if self.limits is not None:
            yield from (one.socket_descriptor for one in self.limits.connections)

    async def listen(self) -> None:
        """Accept connections at the configured ports; after a restart, at the previous ports. Raises OSError."""
        common = self._common
        settings = self.config.settings(NetSettings, self.live.value)
        PROCESS_FILES.join(self)
        max_files = partial(_max_connections, self) if common.is_bounded else None
        connections = self._connections
        limits = Limits(settings, self._clock.machine, max_files, self._unsent, connections.resolve_host)
        connections.limits = limits
        dispatcher = self._dispatcher = common.open_dispatcher(self.node)
        self.live.checks.append(connections.check)
        connections.apply_properties()
        ports = [bound.port for bound in self.bound]
        self.bound = []
        for place, given in enumerate(self.config.listeners):
            port = ports[place] if ports else given.port
            address = ListenerAddress(given.name, given.host, port, given.advertised_host, given.advertised_port)
            security = self._security.secured(given) if given.has_tls or given.has_sasl else PLAINTEXT
            listener = common.machine.listener(address, settings, limits, dispatcher.open, security)
            if given.has_sasl:
                self._security.watch(given, listener)
            await listener.start()
            self._listeners.append(listener)
            self.bound.append(Bound(address.name, address.host, listener.port))
            node = {} if self.config.nodes == 1 else {"node": self.node_id}
            log.info("listening", listener=address.name, address=with_port(address.host, listener.port), **node)
        if self._security.renewals:
            self._check_certificates()

    def endpoints(self) -> dict[str, Endpoint]:
        """The address for clients of each listener, by the listener's name."""
        return {
            bound.listener: Endpoint(given.advertised_host or "", given.advertised_port or bound.port)
            for given, bound in zip(self.config.listeners, self.bound, strict=False)
        }

    def input_waits(self) -> bool:
        """Whether clients have sent bytes that are not read or handled yet."""
        limits = self.limits
        return limits is not None and limits.input_waits(one.descriptor for one in self._listeners)

    def apply_properties(self) -> None:
        """Apply the properties that were set while the node ran."""
        self._connections.apply_properties()
        self._security.renew()

    def _check_certificates(self) -> None:
        self._security.renew()
        clock = self._clock.machine
        self._next_check = clock.call_at(clock.mono_ms() + RENEWAL_CHECK_MS, self._check_certificates)

    # ---- pausing

    @property
    def may_pause(self) -> bool:
        """Whether the node may be paused with `pause`."""
        return self._own_clock is not None

    def pause(self) -> None:
        """Pause as after SIGSTOP: requests wait in the sockets, no timer fires, and nothing is answered."""
        assert self._own_clock is not None
        self._own_clock.pause()
        for listener in self._listeners:
            listener.pause()
        if self.limits is not None:
            self.limits.set_paused(paused=True)

    def resume(self) -> None:
        """Continue as after SIGCONT. The call has no effect for a node that is not paused."""
        if self._own_clock is None or self._own_clock.held is None:
            return
        self._own_clock.resume()
        for listener in self._listeners:
            listener.resume()
        if self.limits is not None:
            self.limits.set_paused(paused=False)

    # ---- its end

    def stop_accepting(self) -> None:
        """Accept no new connections. Open connections stay open."""
        for listener in self._listeners:
            listener.close()
        if self._next_check is not None:
            self._next_check.cancel()
        self._security.stop()

    def resign(self) -> None:
        """Every shard resigns, at once. Shards that write into the logs of other shards resign first."""
        self.transactions.stop()
        self.share_partitions.stop()
        self.share_states.stop()
        self.leaderships.held.clear()
        for shard in self.routing.shards:
            shard.runtime.resign()

    async def answered(self) -> None:
        """Wait until clients that must find another node have their answers, at most `ANSWER_ITERATIONS`."""
        loop = asyncio.get_running_loop()
        for _ in range(ANSWER_ITERATIONS):
            limits = self.limits
            if limits is None or not any(one.core.is_answering for one in limits.connections):
                return
            turned: asyncio.Future[None] = loop.create_future()
            loop.call_soon(turned.set_result, None)
            await turned

    async def close_connections(self) -> None:
        """After `stop_accepting`: send the answers, and end every connection."""
        limits, clock = self.limits, self._clock.machine
        if limits is None:
            return
        for listener in self._listeners:
            await listener.settled()
        empty = asyncio.Event()
        limits.when_empty(empty.set)
        for connection in limits.connections:
            connection.close()
        timer = clock.call_at(clock.now().mono_ms + CLOSE_MS, partial(_abort_all, limits))
        await empty.wait()
        timer.cancel()
        self._forget_connections()

    def die(self) -> None:
        """End as a kill of the process would: connections are cut, the state is lost, and nothing is written."""
        self.stop_accepting()
        self.transactions.died()
        self.share_partitions.stop()
        self.share_states.died()
        self.leaderships.drop()
        if self.limits is not None:
            _abort_all(self.limits)
        self._forget_connections()
        self.resume()  # a node that returns is not paused

    def _forget_connections(self) -> None:
        if self.limits is not None:
            self.limits.stop()
            self._connections.limits = None
        self._listeners = []
        PROCESS_FILES.leave(self)


def _max_connections(node: RunningNode) -> int:
    return PROCESS_FILES.max_connections(node, len(OF_THIS_PROCESS))


def _abort_all(limits: Limits) -> None:
    for connection in limits.connections:
        connection.abort()
