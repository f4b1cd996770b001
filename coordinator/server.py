"""The composition root: puts the rooms together, starts them in order and stops them in the reverse one.

The only place that knows all rooms. `Server` can be used in a test's own event loop; `run` is the whole process.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar, cast

import structlog

from muster.coordinator import collector
from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.intercept import NO_INTERCEPT, Door, Intercept
from muster.coordinator.api.node import Node
from muster.coordinator.api.observer import RequestObserver
from muster.coordinator.clock import Clock
from muster.coordinator.config import Config
from muster.coordinator.file_limits import PROCESS_FILES
from muster.coordinator.group_coordinator.shard import WHAT, GroupShard
from muster.coordinator.group_coordinator.topic_hasher import TopicHasher
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.log import FilesystemSync, LogManager, LogSettings
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.directory_monitor import monitoring
from muster.coordinator.log.maintenance import Maintenance
from muster.coordinator.log.storage.open_files import OF_THIS_PROCESS
from muster.coordinator.machine import Machine
from muster.coordinator.net.listener import WILDCARDS
from muster.coordinator.nodes.cluster import Cluster
from muster.coordinator.nodes.membership import Membership, told_endpoints
from muster.coordinator.nodes.running_node import Bound, Common, RunningNode
from muster.coordinator.nodes.settings import ClusterSettings
from muster.coordinator.observe.journal import Journal
from muster.coordinator.observe.observers import Observers, warn_restless
from muster.coordinator.observe.settings import ObserveSettings
from muster.coordinator.properties.live import Live
from muster.coordinator.runtime import placement
from muster.coordinator.runtime.loader import Loader
from muster.coordinator.runtime.offices import Holders
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.security.authorizer import Authorizer
from muster.coordinator.slices import Job, Slices, at_once, to_its_end
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import (
    GROUP_EVENTS_TOPIC,
    GROUP_OFFSETS_TOPIC,
    PARTITIONS_PROPERTIES,
    TRANSACTION_EVENTS_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.topics.topics import Topics
from muster.coordinator.transaction_coordinator.transactions import Transactions

log = structlog.get_logger("muster.server")

LOAD_BEFORE_LISTENING_MS: Final = 200
"""Groups that take longer to load do so while the server listens; their clients are told to come again."""
SWITCH_S: Final = 0.001
"""How long a thread that computes may keep the event loop waiting at each of its turns; Python's default is 5 ms."""
SYNC_THREADS: Final = 4
"""Threads that wait for the disk."""
THIS_MACHINE: Final = Machine()

T = TypeVar("T")


class Server:
    """All nodes of this process, and what they share; mostly one. `start` once, then `stop` once."""

    def __init__(
        self,
        config: Config,
        *,
        machine: Machine = THIS_MACHINE,
        intercept: Intercept = NO_INTERCEPT,
        observer: RequestObserver | None = None,
        prepares: bool = True,
        loaded: Callable[[], object] = lambda: None,
        membership: Membership | None = None,
    ) -> None:
        """`machine`: see `machine`; `intercept`, `observer`, `prepares`: see `api.dispatch.Dispatcher`; `loaded` is
        called when all groups are, and when all transactional ids are. `membership`: this process is one node among
        others, with which it shares the metadata log; None: it is alone.
        """
        self.config = config
        self.live = Live(config)
        self._loaded = loaded
        self.doors: dict[int, Door] = {}
        """Where the requests of each node meet an interceptor, by node id; also of nodes that are down."""
        self._intercept = intercept
        self._make_dispatcher = partial(Dispatcher, observer=observer, prepares=prepares)
        self._machine = machine
        self._loop: asyncio.AbstractEventLoop
        self.clock: Clock
        self.slices: Slices
        self.logs: LogManager
        self.topics: Topics
        self.nodes: list[RunningNode] = []
        self._membership = membership
        self.cluster: Cluster
        """The nodes of this process; where it is one node among others, `membership` is in its place."""
        self._controller: Cluster | Membership | None = None
        self._filesystem: FilesystemSync | None = None
        self._is_bounded = False
        self._maintenance: Maintenance | None = None
        self._cleaner: Cleaner | None = None
        self._loader: Loader
        self._observers: dict[tuple[str, int], Any] = {}
        """Of the partitions of groups and of transactions, by the topic of their history; all nodes share them."""
        self._control: Any = None
        """The way in for `muster nodes`, if there is one."""
        self._stops: list[Callable[[], object]] = []
        """Of parts that only some servers have."""
        self._to_load = 0
        """Nodes whose transactional ids are not all loaded."""

    # ---- starting ----

    @property
    def bound(self) -> list[Bound]:
        """Where the nodes listen, first the first one."""
        return [bound for node in self.nodes for bound in node.bound]

    @property
    def node(self) -> Node:
        """The first node, as its handlers see it."""
        return self.nodes[0].node

    @property
    def routing(self) -> Routing[GroupShard]:
        """The shards of groups of the first node."""
        return self.nodes[0].routing

    @property
    def transactions(self) -> Transactions:
        """The transactions of the first node."""
        return self.nodes[0].transactions

    async def start(self) -> list[Bound]:
        """Open the data, load the groups, listen. What was opened is closed again when something is in the way.

        Raises OSError (a port or a directory that cannot be had) and the errors of `log.LogManager.open`.
        """
        self._loop = asyncio.get_running_loop()
        self.clock = self._machine.clock()
        self.slices = Slices(self.clock.machine, self._machine.thread(self._post))
        self._open_data()
        try:
            await self._open_groups()
            await self._listen()
        except ApiError as refusal:
            # a topic that belongs to every node cannot be made: the disk
            await self.stop()
            if self._membership is not None:
                raise  # another time it may go well
            raise OSError(errno.EIO, refusal.message) from refusal
        except BaseException:
            await self.stop()
            raise
        unused = self.config.unused()
        if unused:
            log.info("these properties mean nothing here yet", properties=", ".join(unused))
        return self.bound

    def _post(self, callback: Callable[[], object]) -> None:
        """Run `callback` on the event loop soon: for other threads."""
        self._loop.call_soon_threadsafe(callback)

    def connection_count(self) -> int:
        """How many connections there are now."""
        return sum(node.connection_count() for node in self.nodes)

    def _share_files(self) -> None:
        self._is_bounded = PROCESS_FILES.ask()
        OF_THIS_PROCESS.most = PROCESS_FILES.most_logs if self._is_bounded else None

    def _open_data(self) -> None:
        config, machine = self.config, self._machine
        self._share_files()
        sync = None if config.data_dir is None else machine.workers(self._post, SYNC_THREADS)
        storage, settings = machine.storage(config.data_dir), config.settings(LogSettings)
        self.logs = LogManager(storage, settings, sync=sync, engine=machine.engine())
        identity = self.logs.open(cluster_id=config.cluster_id, node_id=config.node_id, draw_uuid=machine.draw_uuid)
        if self.logs.needs_recovery:
            log.warning("the last stop was not clean: logs are checked from their recovery points on",
                        directory=str(config.data_dir))  # fmt: skip
        self._filesystem = machine.whole_disk(config.data_dir)
        self._stop_watching = monitoring(self.logs, self.clock.machine, sync)
        if self._filesystem is not None:
            self.logs.share_sync(self._filesystem.sync, self.clock.machine)
        self._identity = identity

    async def _do(self, job: Job[T]) -> T:
        """Do a job of the start: at once, or as long as others, or the database, make it wait. Raises `ApiError`."""
        return at_once(job) if self._membership is None else await to_its_end(self.slices, job)

    async def _join(self) -> None:
        """Become one of several nodes."""
        if self._membership is not None:
            config = self.config
            await self._do(
                self._membership.joining(
                    self.topics,
                    self.slices,
                    self._identity.cluster_id,
                    config.rack,
                    told_endpoints(config, [given.port for given in config.listeners]),
                    self._renew_journal,
                )
            )

    async def _open_groups(self) -> None:
        config, clock = self.config, self.clock
        configs = [config.of_node(place) for place in range(config.nodes)]
        settings = config.settings(TopicSettings)
        self.topics = Topics(
            settings,
            clock,
            self.logs,
            self._identity,
            TopicConfigs(self.live),
            self._machine.draw_uuid,
            partitions_are_given=lambda topic: config.source(PARTITIONS_PROPERTIES[topic]) != "default",
            racks={node.node_id: node.rack for node in configs},
            keeper=None if self._membership is None else self._membership.keeper,
        )
        self.topics.load()
        await self._join()
        self._reconfigured()
        self.topics.dynamic_configs.subscribe(self._reconfigured)
        await self._do(self.topics.ensuring(GROUP_OFFSETS_TOPIC))
        if config.settings(ObserveSettings).muster_group_events_enable:
            await self._do(self.topics.ensuring(GROUP_EVENTS_TOPIC))
        is_told = config.settings(ObserveSettings).muster_transaction_events_enable
        if is_told and TRANSACTION_STATE_TOPIC in self.topics.by_name:
            await self._do(self.topics.ensuring(TRANSACTION_EVENTS_TOPIC))
        for name, partitions in config.topics:
            there = len((await self._do(self.topics.ensuring(name, partitions))).partitions)
            if there != partitions:
                log.warning(
                    "a topic of --topic is there with another number of partitions: it stays as it is",
                    topic=name, partitions=there, wanted=partitions,
                )  # fmt: skip
        if config.users:
            # imported here: hardly any server is given some
            records = import_module("muster.coordinator.config.users").records(
                config.users, self.topics.state.scram, self._machine.draw_uuid
            )
            await self._do(self.topics.writing(records))
        self.topics.publish()
        self._open_nodes(configs)
        self._loader = Loader(clock, WHAT, self._groups_loaded)
        if config.value("delegation.token.secret.key"):
            self._open_tokens()
        for node in self.nodes:
            node.load(self._loader)
        self._loader.run_for(LOAD_BEFORE_LISTENING_MS)
        for node in self.nodes:
            node.transactions.start(LOAD_BEFORE_LISTENING_MS)
        self._maintenance = Maintenance(self.logs, clock)
        self._maintenance.start()
        cleaners = self._machine.workers(self._post, max(self.logs.settings.log_cleaner_threads, 1))
        self._cleaner = Cleaner(self.logs, clock, cleaners, cpu_share=self._machine.cleaner_cpu_share)
        self._cleaner.start()

    def _open_tokens(self) -> None:
        # imported here: hardly any server has delegation tokens
        room = import_module("muster.coordinator.security.sasl.delegation_tokens")
        value = self.config.value
        tokens = room.DelegationTokens(
            value("delegation.token.secret.key"),
            lambda: self.topics.state.tokens,
            most_lifetime_ms=value("delegation.token.max.lifetime.ms"),
            renewal_ms=value("delegation.token.expiry.time.ms"),
        )
        for node in self.nodes:
            node.node.delegation_tokens = tokens
        expiry = import_module("muster.coordinator.api.security.token_expiry")
        interval_ms = value("delegation.token.expiry.check.interval.ms")
        self._stops.append(expiry.TokenExpiry(self.topics, self.clock, self.slices, interval_ms).stop)

    def _open_nodes(self, configs: Sequence[Config]) -> None:
        """Every node with its shards; none takes office yet."""
        config, topics = self.config, self.topics
        is_told = config.settings(ObserveSettings).muster_transaction_events_enable
        membership = self._membership
        if membership is None:
            self.cluster = Cluster(
                topics,
                self.clock,
                self.slices,
                self._identity.cluster_id,
                config.settings(ClusterSettings),
                self._renew_journal,
            )
        controller = self._controller = membership or self.cluster
        several, first = len(configs) > 1, config.node_id
        group_shards: dict[int, Callable[[], Sequence[GroupShard]]] = {}
        transaction_shards: dict[int, Callable[[], Sequence[Any]]] = {}
        leaders = partial(self.topics.open.leaders_of, GROUP_OFFSETS_TOPIC)
        transaction_leaders = partial(self.topics.open.leaders_of, TRANSACTION_STATE_TOPIC)
        self._to_load = len(configs)
        common = Common(
            machine=self._machine,
            clock=self.clock,
            slices=self.slices,
            topics=topics,
            authorizer=self._authorizer(),
            open_dispatcher=self._open_dispatcher,
            observe=self._observe,
            observe_transactions=partial(self._observe_transactions, is_told),
            transaction_history=TRANSACTION_EVENTS_TOPIC if is_told else None,
            transactions_loaded=self._transactions_loaded,
            rack=config.rack,
            is_bounded=self._is_bounded,
            group_holders=Holders(leaders, group_shards, first) if several else None,
            transaction_holders=Holders(transaction_leaders, transaction_shards, first) if several else None,
            controller=controller,
            peers=None if membership is None else membership.peers,
            post=self._post,
        )
        for place, of_node in enumerate(configs):
            live = self.live if place == 0 else self._live_of(of_node)
            node = RunningNode(of_node, live, common)
            self.doors[node.node_id] = Door(self._intercept)
            group_shards[node.node_id] = lambda routing=node.routing: routing.shards  # type: ignore[misc]  # bound now
            transaction_shards[node.node_id] = partial(_transaction_shards, node)
            self.nodes.append(node)
        hasher = TopicHasher(self.slices, config.settings(GroupSettings).broker_rack)
        topics.subscribe(hasher.topics_changed)
        hasher.topics_changed(topics.image)
        controller.begin(self.nodes)

    def _open_dispatcher(self, node: Node) -> Dispatcher:
        return self._make_dispatcher(node, door=self.doors[node.cluster.node_id])

    def _live_of(self, config: Config) -> Live:
        """The configuration of a further node, which heeds what is set for it while it runs."""
        live = Live(config)
        self.topics.dynamic_configs.also(config.node_id, live, self._reconfigured, self.topics.state)
        return live

    def _authorizer(self) -> Authorizer | None:
        given = self.config.authorization
        if given is None:
            return None
        # imported here: most servers have none
        room = import_module("muster.coordinator.security.standard_authorizer")
        audit = import_module("muster.coordinator.api.acls.audit")
        authorizer: Any = room.StandardAuthorizer(
            given.super_users, allows_when_open=given.allows_when_open, denied=audit.log_denial
        )
        self.topics.subscribe_acls(authorizer.take_in)
        if not (given.super_users or given.allows_when_open or self.topics.state.acls):
            log.warning("nobody may do anything: there are no access control entries and no super.users")
        return cast(Authorizer, authorizer)

    def _reconfigured(self) -> None:
        """Properties of this broker were set while it ran, now or before it was started again: heed them."""
        config, value = self.config, self.live.value
        self.topics.settings = config.settings(TopicSettings, value)
        self.logs.settings = config.settings(LogSettings, value)
        for node in self.nodes:
            node.reconfigured()

    def _groups_loaded(self) -> None:
        groups = (
            [
                [group_id for node in self.nodes for group_id in node.routing.shards[index].group_ids()]
                for index in range(len(self.routing.shards))
            ]
            if len(self.nodes) > 1
            else [shard.group_ids() for shard in self.routing.shards]
        )
        number = PARTITIONS_PROPERTIES[GROUP_OFFSETS_TOPIC]
        placement.check(groups, "groups", GROUP_OFFSETS_TOPIC, number, "their members and offsets cannot be found")
        self._loaded()

    def _transactions_loaded(self) -> None:
        self._to_load -= 1
        if self._to_load:
            return
        ids = [
            [one for node in self.nodes for one in node.transactions.routing.shards[index].transactional_ids()]
            for index in range(len(self.transactions.routing.shards))
        ]
        number = PARTITIONS_PROPERTIES[TRANSACTION_STATE_TOPIC]
        placement.check(ids, "transactional ids", TRANSACTION_STATE_TOPIC, number, "their producers begin anew")
        self._loaded()

    def _observe(self, index: int) -> Observers:
        found = self._observers.get((GROUP_EVENTS_TOPIC, index))
        if found is None:
            journal = None
            if self.config.settings(ObserveSettings).muster_group_events_enable:
                journal = Journal(
                    index, partial(self.topics.open.open_log, GROUP_EVENTS_TOPIC, index), self.clock, warn_restless
                )
            found = self._observers[GROUP_EVENTS_TOPIC, index] = Observers(journal)
        observers: Observers = found
        return observers

    def _observe_transactions(self, is_told: bool, index: int) -> Any:
        found = self._observers.get((TRANSACTION_EVENTS_TOPIC, index))
        if found is None:
            # imported here: most servers have no transactions
            room = import_module("muster.coordinator.observe.transaction_journal")
            lines = import_module("muster.coordinator.transaction_coordinator.log_lines")
            journal = None
            if is_told:
                open_log = partial(self.topics.open.open_log, TRANSACTION_EVENTS_TOPIC, index)
                journal = room.TransactionJournal(index, open_log, self.clock)
            found = room.TransactionObservers(journal, lines.log_events)
            self._observers[TRANSACTION_EVENTS_TOPIC, index] = found
        return found

    def _renew_journal(self, topic: str, index: int) -> None:
        found = self._observers.get((topic, index))
        if found is not None and found.journal is not None:
            found.journal.renew()

    async def _listen(self) -> None:
        for node in self.nodes:
            await node.listen()
        if self._controller is not None:
            self._controller.publish()
        if self._membership is not None:
            await self._membership.listening(told_endpoints(self.config, [bound.port for bound in self.bound]))
        self.clock.read_first(lambda: any(node.input_waits() for node in self.nodes))
        if len(self.nodes) > 1 and self.config.data_dir is not None and self._machine.has_sockets:
            # imported here: most servers have one node
            room = import_module("muster.coordinator.nodes.control")
            self._control = room.Control(self.cluster, self.config.data_dir)
            await self._control.start()

    # ---- stopping ----

    async def stop(self) -> None:
        """Stop as Kafka does: no new connections, parked requests answered NOT_COORDINATOR, answers sent, logs flushed.

        Harmless when `start` came only part of the way.
        """
        if self._control is not None:
            await self._control.stop()
        for node in self.nodes:
            node.accept_no_more()
            node.go_on()
        for stop in self._stops:
            stop()
        self.slices.stop()
        if self._controller is not None:
            self._controller.stop()
        if hasattr(self, "_loader"):
            self._loader.stop()
        # first those who write into the logs of the others
        for node in self.nodes:
            node.transactions.stop()
        for node in self.nodes:
            node.resign()
        for observers in self._observers.values():
            observers.close()
        for node in self.nodes:
            await node.close_connections()
        self._close(clean=True)

    def die(self) -> None:
        """End as a kill of the process would: connections are cut, nothing more is written, and the data is left as it
        is. For tests, whose process goes on.
        """
        for stop in self._stops:
            stop()
        self.slices.stop()
        self._loader.stop()
        self.cluster.stop()
        for node in self.nodes:
            node.die()
        self._close(clean=False)

    def _close(self, *, clean: bool) -> None:
        if self._maintenance is not None:
            self._maintenance.stop()
        if self._cleaner is not None:
            self._cleaner.stop()
        self._stop_watching()
        self.logs.close(clean=clean)
        if self._filesystem is not None:
            self._filesystem.close()


def _transaction_shards(node: RunningNode) -> Sequence[Any]:
    return node.transactions.routing.shards


class Beside(Protocol):
    """What runs beside a server, from before it is ready to its stop."""

    async def start(self) -> None:
        """The server listens. Raises OSError."""

    async def stop(self) -> None:
        """The server is about to stop; harmless when it was not started."""


async def serve(
    config: Config, ready: Callable[[str, int], None], server: Server | None = None, *, beside: Beside | None = None
) -> None:
    """Start, call `ready(host, port)` with the address of the first listener, and stop at SIGTERM, SIGINT or SIGHUP.

    `server`: the one of this configuration, when it was made already.
    """
    # before the start, for it may be long; the first process of a container has no other handlers
    stop = stopping_at_signals()
    # what was loaded lives as long as the process: the collector need not walk through it again and again
    server = Server(config, loaded=gc.freeze) if server is None else server
    await server.start()
    if beside is not None:
        try:
            await beside.start()
        except OSError:
            await server.stop()
            raise
    sys.setswitchinterval(SWITCH_S)
    collector.begin()
    first = server.bound[0]
    if not stop.is_set():
        ready("localhost" if first.host in WILDCARDS else first.host, first.port)
    await stop.wait()
    if beside is not None:
        await beside.stop()
    await server.stop()
    log.info("stopped")


def stopping_at_signals() -> asyncio.Event:
    """Have the running event loop log its faults, and set the event at SIGTERM, SIGINT or SIGHUP."""
    loop, stop, signals = asyncio.get_running_loop(), asyncio.Event(), _signals_to_stop()
    loop.set_exception_handler(_log_exception)
    for number in signals:
        loop.add_signal_handler(number, _on_signal, loop, number, stop, signals)
    return stop


def _signals_to_stop() -> list[signal.Signals]:
    """SIGTERM, SIGINT, and SIGHUP unless it is ignored (nohup) or not known (Windows)."""
    stopping = [signal.SIGTERM, signal.SIGINT]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        stopping.append(hangup)
    return stopping


def _on_signal(
    loop: asyncio.AbstractEventLoop, number: int, stop: asyncio.Event, signals: Iterable[signal.Signals]
) -> None:
    log.info("stopping", signal=signal.Signals(number).name)
    stop.set()
    for one in signals:
        # a second signal ends the process at once
        loop.remove_signal_handler(one)


def _log_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error(context.get("message", "a fault in the event loop"), exc_info=context.get("exception"))


Serve = Callable[[Config, Callable[[str, int], None]], Coroutine[Any, Any, None]]


def run(config: Config, ready: Callable[[str, int], None], serve: Serve = serve) -> int:
    """The whole process, on uvloop where it is installed. Returns the exit status; raises as `Server.start`. `serve`:
    what is run, from its start to its end.
    """
    try:
        import uvloop
    except ImportError:
        # not the other loop that Windows has: it knows no sockets that are ready, which the listener asks for
        factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop
    else:
        factory = uvloop.new_event_loop
    # until it is up nothing is worth collecting, and a walk through all that was imported takes 20 ms
    gc.disable()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(config, ready))
    return 0
