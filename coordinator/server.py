"""The composition root: puts the rooms together, starts them in order and stops them in the reverse one.

The only place that knows all rooms. `Server` can be used in a test's own event loop; `run` is the whole process.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import structlog

from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.intercept import NO_INTERCEPT, Intercept
from muster.coordinator.api.node import Node
from muster.coordinator.api.observer import RequestObserver
from muster.coordinator.api.unsent import Unsent
from muster.coordinator.clock import Clock, Timer
from muster.coordinator.cluster.image import of_one_broker
from muster.coordinator.config import Config
from muster.coordinator.config import Listener as ConfiguredListener
from muster.coordinator.file_limits import PROCESS_FILES
from muster.coordinator.group_coordinator.group_configs import DynamicGroupConfigs
from muster.coordinator.group_coordinator.settings import ShardSettings
from muster.coordinator.group_coordinator.shard import WHAT, GroupShard
from muster.coordinator.group_coordinator.shards import group_shards
from muster.coordinator.group_coordinator.topic_hasher import TopicHasher
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.log import FilesystemSync, LogManager, LogSettings
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.directory_monitor import monitoring
from muster.coordinator.log.maintenance import Maintenance
from muster.coordinator.log.storage.open_files import OF_THIS_PROCESS
from muster.coordinator.machine import Machine
from muster.coordinator.net.addresses import with_port
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.listener import PLAINTEXT, WILDCARDS, Listener, ListenerAddress, Security
from muster.coordinator.net.settings import NO_LIMIT, NetSettings
from muster.coordinator.observe.journal import Journal
from muster.coordinator.observe.observers import Observers, warn_restless
from muster.coordinator.observe.settings import ObserveSettings
from muster.coordinator.properties.definition import InvalidProperty
from muster.coordinator.properties.live import Live
from muster.coordinator.runtime import placement
from muster.coordinator.runtime.loader import Loader
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.security.authorizer import Authorizer
from muster.coordinator.slices import Slices, at_once
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
CLOSE_MS: Final = 2_000
"""How long a stop waits for clients to take what is on its way to them."""
GC_EVERY_OBJECTS: Final = 20_000
"""Members and connections live long and are in few circles: looking for those after each 700 new objects, as Python
does by default, took a tenth of the time in which a thousand members join."""
SWITCH_S: Final = 0.001
"""How long a thread that computes may keep the event loop waiting at each of its turns; Python's default is 5 ms."""
LOOK_MS: Final = 5_000
"""How often it is looked whether files with certificates have changed."""
SYNC_THREADS: Final = 4
"""Threads that wait for the disk."""
THIS_MACHINE: Final = Machine()


class Bound(NamedTuple):
    """One listener that accepts: Kafka's listener name, the host that was asked for, the real port."""

    listener: str
    host: str
    port: int


class Server:
    """One node. `start` once, then `stop` once."""

    def __init__(
        self,
        config: Config,
        *,
        machine: Machine = THIS_MACHINE,
        intercept: Intercept = NO_INTERCEPT,
        observer: RequestObserver | None = None,
        prepares: bool = True,
        loaded: Callable[[], object] = lambda: None,
    ) -> None:
        """`machine`: see `machine`; `intercept`, `observer`, `prepares`: see `api.dispatch.Dispatcher`; `loaded` is
        called when all groups are, and when all transactional ids are.
        """
        self.config = config
        self.live = Live(config)
        self._loaded = loaded
        self._open_dispatcher = partial(Dispatcher, intercept=intercept, observer=observer, prepares=prepares)
        self._machine = machine
        self._loop: asyncio.AbstractEventLoop
        self.clock: Clock
        self.slices: Slices
        self.logs: LogManager
        self.topics: Topics
        self.routing: Routing[GroupShard]
        self.transactions: Transactions
        self.node: Node
        self.bound: list[Bound] = []
        self._filesystem: FilesystemSync | None = None
        self._limits: Limits | None = None
        self._unsent: Unsent
        self._dispatcher: Dispatcher
        self._quotas: Any = None
        self._max_connections: Callable[[], int] | None = None
        self._listeners: list[Listener] = []
        self._renewals: list[Callable[[], object]] = []
        """Each reads the certificates of a listener, or its users, anew if they are others."""
        self._plain_users: dict[str, Any] = {}
        """Of listeners, by name."""
        self._bearers: dict[str, tuple[Any, Any]] = {}
        """How listeners check tokens: settings, and what does it."""
        self._next_look: Timer | None = None
        self._stops: list[Callable[[], object]] = []
        """Of parts that only some servers have."""
        self._maintenance: Maintenance | None = None
        self._cleaner: Cleaner | None = None
        self._loader: Loader
        self._observers: list[Any] = []
        """Of the shards of groups, and of those of transactions."""

    # ---- starting ----

    async def start(self) -> list[Bound]:
        """Open the data, load the groups, listen. What was opened is closed again when something is in the way.

        Raises OSError (a port or a directory that cannot be had) and the errors of `log.LogManager.open`.
        """
        self._loop = asyncio.get_running_loop()
        self.clock = self._machine.clock()
        self.slices = Slices(self.clock, self._machine.thread(self._post))
        self._open_data()
        try:
            self._open_groups()
            await self._listen()
        except ApiError as refusal:
            # a topic that belongs to every node cannot be made: the disk
            await self.stop()
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
        return 0 if self._limits is None else len(self._limits)

    def _share_files(self) -> None:
        is_bounded = PROCESS_FILES.join(self)
        OF_THIS_PROCESS.most = PROCESS_FILES.most_logs if is_bounded else None
        if is_bounded:
            self._max_connections = lambda: PROCESS_FILES.most_connections(self, len(OF_THIS_PROCESS))

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
        self._stop_watching = monitoring(self.logs, self.clock, sync)
        if self._filesystem is not None:
            self.logs.share_sync(self._filesystem.sync, self.clock)
        self._identity = identity

    def _open_groups(self) -> None:
        config, clock = self.config, self.clock
        settings = config.settings(TopicSettings)
        self.topics = Topics(
            settings,
            clock,
            self.logs,
            self._identity,
            TopicConfigs(self.live),
            self._machine.draw_uuid,
            partitions_are_given=lambda topic: config.source(PARTITIONS_PROPERTIES[topic]) != "default",
        )
        self.topics.load()
        self._reconfigured()
        self.topics.dynamic_configs.subscribe(self._reconfigured)
        self.topics.subscribe_quotas(lambda records: self._quota_switch().changed(records))
        at_once(self.topics.ensuring(GROUP_OFFSETS_TOPIC))
        if config.settings(ObserveSettings).muster_group_events_enable:
            at_once(self.topics.ensuring(GROUP_EVENTS_TOPIC))
        for name, partitions in config.topics:
            there = len(at_once(self.topics.ensuring(name, partitions)).partitions)
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
            self.topics.write_records(records)
        self.topics.publish()
        self._loader = Loader(clock, WHAT, self._groups_loaded)
        shards = group_shards(
            self.topics,
            clock,
            self._group_settings(),
            config.settings(ShardSettings),
            self._observe,
            lambda producer_ids: self.transactions.known_producers(producer_ids),
            self.slices,
            config.assignors,
        )
        self.routing = Routing(shards)
        group_configs = DynamicGroupConfigs(self.routing, self.live)
        self.topics.dynamic_configs.subscribe(group_configs.broker_reconfigured)
        self.topics.dynamic_configs.subscribe_groups(group_configs.configured, self.topics.state)
        for shard in shards:
            partition = self.topics.open.partition(GROUP_OFFSETS_TOPIC, shard.partition)
            self._loader.add(shard.start(), 0 if partition is None else partition.log.size_bytes)
            self.topics.subscribe(shard.topics_changed)
        hasher = TopicHasher(self.slices, self._group_settings().broker_rack)
        self.topics.subscribe(hasher.topics_changed)
        hasher.topics_changed(self.topics.image)
        is_told = config.settings(ObserveSettings).muster_transaction_events_enable
        self.transactions = Transactions(
            self.topics,
            clock,
            self.slices,
            shards,
            self._transaction_settings,
            observe=partial(self._observe_transactions, is_told),
            linger_ms=config.settings(ShardSettings).group_coordinator_append_linger_ms,
            history=TRANSACTION_EVENTS_TOPIC if is_told else None,
            loaded=self._transactions_loaded,
        )
        self._unsent = Unsent(clock, config.settings(NetSettings).muster_queued_max_response_bytes)
        self.node = Node(
            clock=clock,
            topics=self.topics,
            routing=self.routing,
            transactions=self.transactions,
            config=self.live,
            cluster=of_one_broker(
                config.node_id,
                self._identity.cluster_id,
                config.rack,
                self.topics.broker_epoch,
                self.topics.open.leaders,
            ),
            authorizer=self._authorizer(),
            slices=self.slices,
            unsent=self._unsent,
            draw_uuid=self._machine.draw_uuid,
            draw_uuid_text=self._machine.draw_uuid_text,
        )
        if self.topics.state.quotas:
            self._quota_switch().load(self.topics.state.quotas)
        if config.value("delegation.token.secret.key"):
            self._open_tokens()
        self._loader.run_for(LOAD_BEFORE_LISTENING_MS)
        self.transactions.start(LOAD_BEFORE_LISTENING_MS)
        self._maintenance = Maintenance(self.logs, clock)
        self._maintenance.start()
        cleaners = self._machine.workers(self._post, max(self.logs.settings.log_cleaner_threads, 1))
        self._cleaner = Cleaner(self.logs, clock, cleaners, cpu_share=self._machine.cleaner_cpu_share)
        self._cleaner.start()

    def _open_tokens(self) -> None:
        # imported here: hardly any server has delegation tokens
        room = import_module("muster.coordinator.security.sasl.delegation_tokens")
        value = self.config.value
        self.node.delegation_tokens = room.DelegationTokens(
            value("delegation.token.secret.key"),
            lambda: self.topics.state.tokens,
            most_lifetime_ms=value("delegation.token.max.lifetime.ms"),
            renewal_ms=value("delegation.token.expiry.time.ms"),
        )
        expiry = import_module("muster.coordinator.api.security.token_expiry")
        interval_ms = value("delegation.token.expiry.check.interval.ms")
        self._stops.append(expiry.TokenExpiry(self.topics, self.clock, interval_ms).stop)

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

    def _group_settings(self) -> GroupSettings:
        settings, assignors = self.config.settings(GroupSettings), self.config.assignors
        return settings if assignors is None else replace(settings, group_consumer_assignors=tuple(assignors))

    def _reconfigured(self) -> None:
        """Properties of this broker were set while it ran, now or before it was started again: heed them."""
        config, value = self.config, self.live.value
        self.topics.settings = config.settings(TopicSettings, value)
        self.logs.settings = config.settings(LogSettings, value)
        self._limit_connections()
        self._renew_certificates()

    def _quota_switch(self) -> Any:
        """Puts quotas into force."""
        if self._quotas is None:
            # imported here: most servers have none
            settings = self.config.settings(import_module("muster.coordinator.quotas.settings").QuotaSettings)
            room = import_module("muster.coordinator.net.quotas")
            self._quotas = room.Quotas(settings, self.node, lambda *which: self._dispatcher.throttled(*which))
            self._limit_connections()
        return self._quotas

    def _check_limits(self, live: Live) -> None:
        for listener in self.config.listeners:
            for name in ("max.connections", "max.connection.creation.rate"):
                if live.own_of(listener.name, name) == 0:
                    what = f"org.apache.kafka.common.config.ConfigException: Invalid {name} 0"
                    raise InvalidProperty(
                        name, "0", f"Invalid value {what} for configuration Invalid dynamic configuration"
                    )

    def _limit_connections(self) -> None:
        """As the properties say now: how many there may be, and how fast they may come."""
        limits = self._limits
        if limits is None:
            return
        settings = self.config.settings(NetSettings, self.live.value)
        rate = settings.max_connection_creation_rate
        most: dict[str, int] = {}
        rates: dict[str, int] = {}
        for listener in self.config.listeners:
            most_here = cast("int | None", self.live.own_of(listener.name, "max.connections"))
            if most_here is not None:
                most[listener.name] = most_here
            rate_here = cast("int | None", self.live.own_of(listener.name, "max.connection.creation.rate"))
            rates[listener.name] = rate if rate_here is None else rate_here
        limits.set_most(settings, most)
        if self._quotas is not None:
            self._quotas.limit_connections(limits, rate, rates)
        elif any(each != NO_LIMIT for each in (rate, *rates.values())):
            self._quota_switch()

    def _groups_loaded(self) -> None:
        groups = [shard.group_ids() for shard in self.routing.shards]
        number = PARTITIONS_PROPERTIES[GROUP_OFFSETS_TOPIC]
        placement.check(groups, "groups", GROUP_OFFSETS_TOPIC, number, "their members and offsets cannot be found")
        self._loaded()

    def _transaction_settings(self) -> Any:
        # imported here: most servers have no transactions, and to make the class takes longer than all else of them
        return self.config.settings(import_module("muster.coordinator.transactions.settings").TransactionSettings)

    def _transactions_loaded(self) -> None:
        ids = [shard.transactional_ids() for shard in self.transactions.routing.shards]
        number = PARTITIONS_PROPERTIES[TRANSACTION_STATE_TOPIC]
        placement.check(ids, "transactional ids", TRANSACTION_STATE_TOPIC, number, "their producers begin anew")
        self._loaded()

    def _observe(self, index: int) -> Observers:
        journal = None
        if self.config.settings(ObserveSettings).muster_group_events_enable:
            journal = Journal(
                index, partial(self.topics.open.open_log, GROUP_EVENTS_TOPIC, index), self.clock, warn_restless
            )
        observers = Observers(journal)
        self._observers.append(observers)
        return observers

    def _observe_transactions(self, is_told: bool, index: int) -> Any:
        # imported here: most servers have no transactions
        room = import_module("muster.coordinator.observe.transaction_journal")
        lines = import_module("muster.coordinator.transaction_coordinator.log_lines")
        journal = None
        if is_told:
            open_log = partial(self.topics.open.open_log, TRANSACTION_EVENTS_TOPIC, index)
            journal = room.TransactionJournal(index, open_log, self.clock)
        self._observers.append(room.TransactionObservers(journal, lines.log_events))
        return self._observers[-1]

    async def _listen(self) -> None:
        settings = self.config.settings(NetSettings, self.live.value)
        limits = self._limits = Limits(settings, self.clock, self._max_connections, self._unsent, self._look_up)
        dispatcher = self._dispatcher = self._open_dispatcher(self.node)
        self.live.checks.append(self._check_limits)
        self._limit_connections()
        for given in self.config.listeners:
            address = ListenerAddress(given.name, given.host, given.port, given.advertised_host, given.advertised_port)
            security = self._secured(given) if given.has_tls or given.has_sasl else PLAINTEXT
            listener = self._machine.listener(address, settings, limits, dispatcher.open, security)
            if given.has_sasl:
                self._renew_sasl_of(given, listener)
            await listener.start()
            self._listeners.append(listener)
            self.bound.append(Bound(address.name, address.host, listener.port))
            log.info("listening", listener=address.name, address=with_port(address.host, listener.port))
        self.clock.read_first(lambda: limits.input_waits(one.descriptor for one in self._listeners))
        if self._renewals:
            self._look_for_certificates()

    def _look_up(self, host: str, done: Callable[[str | None], object]) -> None:
        """Tell the address of a host, for limits of addresses."""
        resolve = import_module("muster.coordinator.host_names").resolve
        self.slices.worker.run(partial(resolve, host), lambda address, _: done(address))

    def _secured(self, listener: ConfiguredListener) -> Security:
        # imported here: most servers have neither TLS nor SASL
        room = import_module("muster.coordinator.config.security")
        sasl = self._sasl_listener(listener) if listener.has_sasl else None
        if not listener.has_tls:
            return Security(sasl=sasl)
        found = import_module("muster.coordinator.net.tls.renewal").ListenerTls(
            listener.name, room.tls_settings(listener, self.live)
        )

        def check(live: Live) -> None:
            try:
                found.check(room.tls_settings(listener, live))
            except room.TlsError as error:
                raise room.refusal(listener, error) from error

        self.live.checks.append(check)
        self._renewals.append(lambda: found.renew(room.tls_settings(listener, self.live)))
        return Security(found, sasl)

    def _sasl_listener(self, listener: ConfiguredListener) -> Any:
        room = import_module("muster.coordinator.config.sasl")
        settings = room.sasl_settings(listener, self.live)
        users = self._plain_users.setdefault(listener.name, settings.users)
        users.become(settings.users)
        settings = settings._replace(users=users)
        begin_bearer = None if settings.bearer is None else self._bearer(listener.name, settings.bearer).begin
        return room.sasl_listener(
            settings, self._credential, self._machine.draw_uuid_text, self._scram_secret(), begin_bearer,
            self.node.delegation_tokens, self._iterations(),
        )  # fmt: skip

    def _scram_secret(self) -> bytes:
        """For credentials that are made up, the same after a restart."""
        room = import_module("muster.coordinator.config.made_up")
        secret: bytes = room.secret(self.logs.storage, self._machine.draw_uuid)
        return secret

    def _iterations(self) -> Any:
        return import_module("muster.coordinator.config.made_up").Iterations(lambda: self.topics.state)

    def _bearer(self, listener: str, settings: Any) -> Any:
        """It goes on when nothing of it has changed: it has fetched keys."""
        before, bearer = self._bearers.get(listener, (None, None))
        if before != settings:
            made = import_module("muster.coordinator.config.oauthbearer").Bearer(
                listener, settings, self.clock, self._post
            )
            if bearer is not None:
                bearer.stop()
            bearer = made
            self._bearers[listener] = settings, bearer
        return bearer

    def _renew_sasl_of(self, given: ConfiguredListener, listener: Listener) -> None:
        room = import_module("muster.coordinator.config.sasl")
        seen = room.stamp(given, self.live)

        def check(live: Live) -> None:
            try:
                room.sasl_settings(given, live)
            except room.ConfigError as error:
                raise room.refusal(given, error) from error

        def renew() -> None:
            nonlocal seen
            now = room.stamp(given, self.live)
            if now == seen:
                return
            seen = now
            try:
                listener.set_sasl(self._sasl_listener(given))
            except room.ConfigError as error:
                log.error("what clients have to show cannot be changed to this, it stays as it was",
                          listener=given.name, why=str(error))  # fmt: skip
            else:
                log.info("what clients have to show was read anew", listener=given.name)

        self.live.checks.append(check)
        self._renewals.append(renew)

    def _credential(self, user: str, kind: int) -> Any:
        """Of SCRAM, by the type of the mechanism."""
        return self.topics.state.scram.get((user, kind))

    def _renew_certificates(self) -> None:
        for renew in self._renewals:
            renew()

    def _look_for_certificates(self) -> None:
        self._renew_certificates()
        self._next_look = self.clock.call_at(self.clock.mono_ms() + LOOK_MS, self._look_for_certificates)

    # ---- stopping ----

    async def stop(self) -> None:
        """Stop as Kafka does: no new connections, parked requests answered NOT_COORDINATOR, answers sent, logs flushed.

        Harmless when `start` came only part of the way.
        """
        for listener in self._listeners:
            listener.close()
        if self._next_look is not None:
            self._next_look.cancel()
        for stop in self._stops:
            stop()
        for _, bearer in self._bearers.values():
            bearer.stop()
        self.slices.stop()
        if hasattr(self, "routing"):
            self._loader.stop()
            # first those who write into the logs of the others
            self.transactions.stop()
            for shard in self.routing.shards:
                shard.resign()
        for observers in self._observers:
            observers.close()
        if self._limits is not None:
            await self._close_connections(self._limits)
            self._limits.stop()
        if self._maintenance is not None:
            self._maintenance.stop()
        if self._cleaner is not None:
            self._cleaner.stop()
        self._stop_watching()
        self.logs.close(clean=True)
        PROCESS_FILES.leave(self)
        if self._filesystem is not None:
            self._filesystem.close()

    async def _close_connections(self, limits: Limits) -> None:
        for listener in self._listeners:
            await listener.settled()
        empty = asyncio.Event()
        limits.when_empty(empty.set)
        for connection in limits.connections:
            connection.close()
        timer = self.clock.call_at(self.clock.now().mono_ms + CLOSE_MS, lambda: _abort_all(limits))
        await empty.wait()
        timer.cancel()


def _abort_all(limits: Limits) -> None:
    for connection in limits.connections:
        connection.abort()


async def serve(config: Config, ready: Callable[[str, int], None]) -> None:
    """Start, call `ready(host, port)` with the address of the first listener, and stop at SIGTERM, SIGINT or SIGHUP."""
    # before the start, for it may be long; the first process of a container has no other handlers
    stop = stopping_at_signals()
    # what was loaded lives as long as the process: the collector need not walk through it again and again
    server = Server(config, loaded=gc.freeze)
    await server.start()
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    gc.set_threshold(GC_EVERY_OBJECTS)
    gc.enable()
    first = server.bound[0]
    if not stop.is_set():
        ready("localhost" if first.host in WILDCARDS else first.host, first.port)
    await stop.wait()
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
