"""Builds a server from all packages, starts them in order and stops them in reverse order."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import structlog

from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept, InterceptPoint
from muster.coordinator.api.node import Node
from muster.coordinator.api.observer import RequestObserver
from muster.coordinator.config import Config
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.history.event_writer import HistorySettings
from muster.coordinator.log import LogManager, LogSettings
from muster.coordinator.properties.live import Live
from muster.coordinator.runtime.figures import ShardFigures
from muster.coordinator.runtime.group_coordinator.background_work import TopicHasher
from muster.coordinator.runtime.group_coordinator.shard import WHAT, GroupShard
from muster.coordinator.runtime.loader import Loader
from muster.coordinator.runtime.routing import LeaderShards, Routing, check_placement
from muster.coordinator.runtime.transaction_coordinator.transactions import Transactions
from muster.coordinator.server.data import Data, creating_first_topics
from muster.coordinator.server.histories import Histories
from muster.coordinator.server.machine import Machine
from muster.coordinator.server.nodes.cluster import Cluster
from muster.coordinator.server.nodes.common import LeadershipSettings, Membership, SharedByNodes, advertised_endpoints
from muster.coordinator.server.nodes.running_node import Bound, RunningNode
from muster.coordinator.server.nodes.security import make_authorizer, make_delegation_tokens
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, JobQueue, at_once, to_its_end
from muster.coordinator.telemetry.reports import ClientReports, TelemetrySettings
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import (
    GROUP_OFFSETS_TOPIC,
    PARTITIONS_PROPERTIES,
    SHARE_STATE_TOPIC,
    TRANSACTION_EVENTS_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.topics.topics import Topics

log = structlog.get_logger("muster.server")

LOAD_BEFORE_LISTENING_MS: Final = 200
"""How long the start waits for groups to load. Later groups load while the server listens; clients retry."""
THIS_MACHINE: Final = Machine()

T = TypeVar("T")


class Server:
    """All nodes of this process, usually one, and the objects that they share. Call `start` once, then `stop` once."""

    def __init__(
        self,
        config: Config,
        *,
        machine: Machine = THIS_MACHINE,
        intercept: Intercept = NO_INTERCEPT,
        observer: RequestObserver | None = None,
        caches: bool = True,
        loaded: Callable[[], object] = lambda: None,
        membership: Membership | None = None,
        on_group_events: Callable[[Sequence[Event], Now], object] | None = None,
        figures: ShardFigures | None = None,
    ) -> None:
        """`intercept`, `observer`, `caches`: see `api.dispatch.Dispatcher`. `loaded` is called when all groups are
        loaded, and when all transactional ids are loaded. `membership`: this process is one node of a cluster; None:
        the process is the whole cluster. `figures` counts loads and commits for scrapes. None
        means that nothing is counted.
        """
        self._on_group_events = on_group_events
        self._figures = figures
        self.config = config
        self.live = Live(config)
        self._loaded = loaded
        self.intercept_points: dict[int, InterceptPoint] = {}
        """The intercept points of all nodes, by node id; also of nodes that are down."""
        self._intercept = intercept
        self._make_dispatcher = partial(Dispatcher, observer=observer, caches=caches)
        self._machine = machine
        self._configs = [config.of_node(place) for place in range(config.nodes)]
        self._loop: asyncio.AbstractEventLoop
        self.clock: Clock
        self.job_queue: JobQueue
        self._data: Data
        self.logs: LogManager
        self.topics: Topics
        self.nodes: list[RunningNode] = []
        self._membership = membership
        self.cluster: Cluster
        """The nodes of this process. Not set with a `membership`: then the database decides about leaders."""
        self._controller: Cluster | Membership | None = None
        self._loader: Loader
        self._histories: Histories | None = None
        self._control: Any = None
        self._stops: list[Callable[[], object]] = []
        has_receiver = config.settings(TelemetrySettings).muster_client_telemetry_enable
        self.client_reports = ClientReports() if has_receiver else None
        """The metrics that clients have pushed to any node of this process (KIP-714)."""
        self._to_load = 0
        """The number of nodes with transactional ids that are not loaded yet."""

    # ---- starting ----

    @property
    def bound(self) -> list[Bound]:
        """Where the nodes listen, beginning with the first node."""
        return [bound for node in self.nodes for bound in node.bound]

    @property
    def node(self) -> Node:
        """The first node, as its handlers see it."""
        return self.nodes[0].node

    @property
    def routing(self) -> Routing[GroupShard]:
        """The group shards of the first node."""
        return self.nodes[0].routing

    @property
    def transactions(self) -> Transactions:
        """The transactions of the first node."""
        return self.nodes[0].transactions

    async def start(self) -> list[Bound]:
        """Open the data, load the groups, and listen. After a failure everything is closed again.

        Raises OSError (a port or a directory is unavailable) and the errors of `log.LogManager.open`.
        """
        self._loop = asyncio.get_running_loop()
        self.clock = self._machine.clock()
        self.job_queue = JobQueue(self.clock.machine, self._machine.thread(self._post))
        self._data = Data(self.config, self._machine, self.clock, self.job_queue, self._post)
        self.logs = self._data.logs
        try:
            await self._open_topics()
            self._open_nodes()
            self._load()
            self._data.begin_maintenance()
            await self._listen()
        except ApiError as refusal:
            # the disk has failed: a topic that every node needs cannot be created
            await self.stop()
            if self._membership is not None:
                raise  # a later attempt may succeed
            raise OSError(errno.EIO, refusal.message) from refusal
        except BaseException:
            await self.stop()
            raise
        unused = self.config.unused()
        if unused:
            log.info("these properties have no effect here yet", properties=", ".join(unused))
        return self.bound

    def _post(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def connection_count(self) -> int:
        """The number of open connections."""
        return sum(node.connection_count() for node in self.nodes)

    async def ends_elsewhere(self) -> Mapping[str, Mapping[int, tuple[int, int]]]:
        """Start and end of logs that other processes may lead, by topic and partition. Empty: none, or not known."""
        return {} if self._membership is None else await self._membership.ends()

    async def _do(self, job: Job[T]) -> T:
        """Run a job of the start to its end. A job may wait for other jobs, or for the database. Raises `ApiError`."""
        return at_once(job) if self._membership is None else await to_its_end(self.job_queue, job)

    async def _join(self, histories: Histories) -> None:
        if self._membership is not None:
            config = self.config
            await self._do(
                self._membership.joining(
                    self.topics,
                    self.job_queue,
                    self._data.identity.cluster_id,
                    config.rack,
                    advertised_endpoints(config, [given.port for given in config.listeners]),
                    histories.renew,
                    histories,
                )
            )

    async def _open_topics(self) -> None:
        config = self.config
        self.topics = Topics(
            config.settings(TopicSettings),
            self.clock,
            self.logs,
            self._data.identity,
            TopicConfigs(self.live),
            self._machine.draw_uuid,
            partitions_are_given=lambda topic: config.source(PARTITIONS_PROPERTIES[topic]) != "default",
            racks={node.node_id: node.rack for node in self._configs},
            shared_log=None if self._membership is None else self._membership.shared_log,
        )
        self.topics.load()
        self._histories = Histories(
            config.settings(HistorySettings),
            self.topics,
            self.clock,
            self._on_group_events,
            self.client_reports,
            None if self._figures is None else self._figures.loads.append,
        )
        await self._join(self._histories)
        self._reconfigured()
        self.topics.dynamic_configs.subscribe(self._reconfigured)
        await self._do(creating_first_topics(config, self.topics, self._machine.draw_uuid))
        self.topics.publish()

    def _open_nodes(self) -> None:
        """Make every node with its shards. No shard is active yet."""
        config, topics, histories = self.config, self.topics, self._histories
        assert histories is not None
        has_history = config.settings(HistorySettings).muster_transaction_events_enable
        membership, configs = self._membership, self._configs
        if membership is None:
            self.cluster = Cluster(
                topics,
                self.clock,
                self.job_queue,
                self._data.identity.cluster_id,
                config.settings(LeadershipSettings),
                histories.renew,
            )
        controller = self._controller = membership or self.cluster
        several, first = len(configs) > 1, config.node_id
        group_shards: dict[int, Callable[[], Sequence[GroupShard]]] = {}
        transaction_shards: dict[int, Callable[[], Sequence[Any]]] = {}
        share_shards: dict[int, Callable[[], Sequence[Any]]] = {}
        leaders = partial(self.topics.open.leaders_of, GROUP_OFFSETS_TOPIC)
        transaction_leaders = partial(self.topics.open.leaders_of, TRANSACTION_STATE_TOPIC)
        share_leaders = partial(self.topics.open.leaders_of, SHARE_STATE_TOPIC)
        self._to_load = len(configs)
        common = SharedByNodes(
            machine=self._machine,
            clock=self.clock,
            job_queue=self.job_queue,
            topics=topics,
            authorizer=make_authorizer(config, topics),
            open_dispatcher=self._open_dispatcher,
            observe=histories.of_groups,
            observe_transactions=histories.of_transactions,
            transaction_history=TRANSACTION_EVENTS_TOPIC if has_history else None,
            transactions_loaded=self._transactions_loaded,
            rack=config.rack,
            is_bounded=self._data.is_bounded,
            group_leader_shards=LeaderShards(leaders, group_shards, first) if several else None,
            transaction_leader_shards=LeaderShards(transaction_leaders, transaction_shards, first) if several else None,
            share_leader_shards=LeaderShards(share_leaders, share_shards, first) if several else None,
            controller=controller,
            peers=None if membership is None else membership.peers,
            post=self._post,
            client_reports=self.client_reports,
            figures=self._figures,
        )
        for place, of_node in enumerate(configs):
            live = self.live if place == 0 else self._live_of(of_node)
            node = RunningNode(of_node, live, common)
            self.intercept_points[node.node_id] = InterceptPoint(self._intercept)
            group_shards[node.node_id] = lambda routing=node.routing: routing.shards  # type: ignore[misc]  # bound now
            transaction_shards[node.node_id] = partial(_transaction_shards, node)
            share_shards[node.node_id] = partial(_share_shards, node)
            self.nodes.append(node)
        hasher = TopicHasher(self.job_queue, config.settings(GroupSettings).broker_rack)
        topics.subscribe(hasher.topics_changed)
        hasher.topics_changed(topics.image)
        controller.begin(self.nodes)
        stop_tokens = make_delegation_tokens(
            config, topics, self.clock, self.job_queue, [one.node for one in self.nodes]
        )
        if stop_tokens is not None:
            self._stops.append(stop_tokens)

    def _load(self) -> None:
        self._loader = Loader(self.clock, WHAT, self._groups_loaded)
        for node in self.nodes:
            node.load(self._loader)
        self._loader.run_for(LOAD_BEFORE_LISTENING_MS)
        for node in self.nodes:
            node.transactions.start(LOAD_BEFORE_LISTENING_MS)
            node.share_states.start(LOAD_BEFORE_LISTENING_MS)

    def _open_dispatcher(self, node: Node) -> Dispatcher:
        return self._make_dispatcher(node, intercept_point=self.intercept_points[node.cluster.node_id])

    def _live_of(self, config: Config) -> Live:
        live = Live(config)
        self.topics.dynamic_configs.follow(config.node_id, live, self._reconfigured, self.topics.state)
        return live

    def _reconfigured(self) -> None:
        """Apply the properties of this broker that were set while it ran, or before it was started again."""
        config, value = self.config, self.live.value
        self.topics.settings = config.settings(TopicSettings, value)
        self.logs.settings = config.settings(LogSettings, value)
        for node in self.nodes:
            node.apply_properties()

    def _groups_loaded(self) -> None:
        names = [[shard.group_ids() for shard in node.routing.shards] for node in self.nodes]
        self._check_placement(GROUP_OFFSETS_TOPIC, "groups", names, "their members and offsets cannot be found")

    def _transactions_loaded(self) -> None:
        self._to_load -= 1
        if not self._to_load:
            names = [[shard.transactional_ids() for shard in node.transactions.routing.shards] for node in self.nodes]
            self._check_placement(TRANSACTION_STATE_TOPIC, "transactional ids", names, "their producers begin anew")

    def _check_placement(self, topic: str, what: str, names: list[list[Iterable[str]]], lost: str) -> None:
        """Check the names of each partition of each node, and report that they are loaded."""
        here = names[0] if len(names) == 1 else [[*chain(*of_nodes)] for of_nodes in zip(*names, strict=True)]
        check_placement(here, what, topic, PARTITIONS_PROPERTIES[topic], lost)
        self._loaded()

    async def _listen(self) -> None:
        for node in self.nodes:
            await node.listen()
        if self._controller is not None:
            self._controller.publish()
        if self._membership is not None:
            await self._membership.listening(advertised_endpoints(self.config, [bound.port for bound in self.bound]))
        self.clock.read_first(lambda: any(node.input_waits() for node in self.nodes))
        if len(self.nodes) > 1 and self.config.data_dir is not None and self._machine.has_sockets:
            # imported here: most servers have one node
            from muster.coordinator.server.nodes.control import Control

            self._control = Control(self.cluster, self.config.data_dir)
            await self._control.start()

    # ---- stopping ----

    async def stop(self) -> None:
        """Stop as Kafka does: answer parked requests NOT_COORDINATOR, send all answers, and flush the logs."""
        if self._control is not None:
            await self._control.stop()
        for node in self.nodes:
            node.stop_accepting()
            node.resume()
        for stop in self._stops:
            stop()
        self.job_queue.stop()
        if self._controller is not None:
            self._controller.stop()
        if hasattr(self, "_loader"):
            self._loader.stop()
        # shards that write into the logs of other shards stop first
        for node in self.nodes:
            node.transactions.stop()
        for node in self.nodes:
            node.resign()
        if self._histories is not None:
            self._histories.close()
        for node in self.nodes:
            await node.close_connections()
        self._data.close(clean=True)

    def die(self) -> None:
        """End as if the process was killed, for tests: connections are cut, and nothing more is written."""
        for stop in self._stops:
            stop()
        self.job_queue.stop()
        self._loader.stop()
        self.cluster.stop()
        for node in self.nodes:
            node.die()
        self._data.close(clean=False)


def _share_shards(node: RunningNode) -> Sequence[Any]:
    return node.share_states.routing.shards


def _transaction_shards(node: RunningNode) -> Sequence[Any]:
    return node.transactions.routing.shards
