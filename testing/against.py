"""Makes a running cluster the server of tests: Apache Kafka, or Muster in a process of its own.

Verbs use Kafka's own requests, as administrators do. A verb that only Muster has raises `OnlyMuster`. A wait repeats
its requests, because no event reports a change.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from muster.client.connection import RequestFailed
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import parse_address, show
from muster.coordinator.server.group_views import DEAD, GroupView, Offsets, others
from muster.testcontrol import checks
from muster.testcontrol.errors import CannotBeDone, WaitFailed
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.waits import COUNTS, counted, done_words, has_consumed, is_done, is_stable, stable_words
from muster.testing.admin_groups import configure, coordinator_of, describe, group_ids, remove_member, reset
from muster.testing.admin_topics import AdminTopics
from muster.testing.loop_bridge import FORKED, Lifecycle, LoopBridge, LoopThread
from muster.testing.server_lines import ServerLines
from muster.testing.verbs import Topics

CHECK_S: Final = 0.05
"""The pause between two checks of a group that a test waits for."""


_OPTION: Final = re.compile(r" \(--[^()]*\)$")


class OnlyMuster(CannotBeDone):
    """Only a Muster that this program has started has this verb."""


class Against:
    """A `verbs.Runner` that only connects to a cluster at a bootstrap address, and starts and ends nothing."""

    def __init__(
        self,
        bootstrap_servers: str,
        open_verbs: Callable[[KafkaClient], ClusterVerbs] | None = None,
        bridge: LoopBridge | None = None,
    ) -> None:
        """`bootstrap_servers`: HOST:PORT, with commas; the first that answers is used. `open_verbs`: makes the verbs.
        `bridge`: of a runner that starts the cluster itself, perhaps several times.
        """
        self._open: Callable[[KafkaClient], ClusterVerbs] = ClusterVerbs if open_verbs is None else open_verbs
        self.bootstrap_servers = bootstrap_servers
        self.bridge = LoopBridge(refused) if bridge is None else bridge
        self.lines = ServerLines()
        self._thread: LoopThread | None = None
        self._verbs: ClusterVerbs | None = None
        self._life = Lifecycle()

    @property
    def is_running(self) -> bool:
        return self._verbs is not None and not self._life.is_elsewhere

    def start(self) -> None:
        """Connect to the cluster. Raises CannotBeDone."""
        with self._life.changing():
            self._start()

    def _start(self) -> None:
        if self._thread is not None:
            raise CannotBeDone("it is connected already")
        given = [one.strip() for one in self.bootstrap_servers.split(",")]
        addresses = [parse_address(one, "the bootstrap server") for one in given if one]
        thread = LoopThread(asyncio.SelectorEventLoop, "muster-against")
        try:
            verbs = self._open(KafkaClient(addresses))
        except RequestFailed as failure:
            raise _without_option(failure) from failure
        self.bridge.open(thread.start(_nothing, _nothing))
        self._thread, self._verbs = thread, verbs
        self._life.began()

    def stop(self) -> None:
        """Close the connections."""
        if self._life.is_elsewhere:
            return  # the connections belong to the process that has opened them
        with self._life.changing():
            thread, verbs = self._thread, self._verbs
            if thread is not None and verbs is not None:
                self._thread = self._verbs = None
                self.bridge.close()
                thread.end()
                verbs.cluster.close()
                self._life.ended()

    def kill(self) -> None:
        """Raises OnlyMuster: a test cannot kill a cluster that it has not started."""
        raise OnlyMuster("a test cannot kill a cluster that it has not started")

    def take_failure(self) -> None:
        """See `Runner`. Returns None, because no test code runs in the cluster."""

    def verbs(self) -> ClusterVerbs:
        if self._verbs is None:
            raise CannotBeDone("it is not connected")
        if self._life.is_elsewhere:
            raise CannotBeDone(FORKED)
        return self._verbs


class ClusterVerbs:
    """The `verbs.Verbs` of a running cluster."""

    def __init__(self, cluster: KafkaClient) -> None:
        self.cluster = cluster
        self.topics = AdminTopics(cluster)
        self.groups = AdminGroups(cluster, self.topics)
        self.nodes = AdminNodes(cluster)

    def interventions(self) -> list[str]:
        return []

    def take_failure(self, rule_id: str | None = None) -> BaseException | None:
        """See `ServerControl`. Returns None, because no test code runs in the cluster."""
        del rule_id
        return None

    @property
    def ahead_ms(self) -> int:
        return 0

    def tidy(self) -> None:
        """Do nothing: tests cannot hold or pause anything on this cluster."""

    @property
    def faults(self) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("only a Muster that this program has started has faults")

    @property
    def scenarios(self) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("only a Muster that this program has started has scenarios")

    @property
    def time(self) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("time can be moved only on a Muster that this program has started")

    def run_until(self, *_: object, **__: object) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("time can be moved only on a Muster that this program has started")


class AdminGroups:
    """The methods for groups that Kafka's Admin client has, too."""

    def __init__(self, cluster: KafkaClient, topics: AdminTopics) -> None:
        self._cluster = cluster
        self._topics = topics

    def ids(self) -> list[str]:
        return group_ids(self._cluster)

    def describe(self, group_id: str) -> GroupView:
        """Describe the group as it is now. Kafka does not report how far a classic member is in a rebalance."""
        return describe(self._cluster, self._topics, group_id)

    def events(self, _: str) -> NoReturn:
        """Raises OnlyMuster: Kafka keeps no history."""
        raise OnlyMuster("Kafka keeps no history of a group")

    def history(self, _: str, *, everything: bool = False) -> NoReturn:  # noqa: ARG002  # the signature of Groups
        """Raises OnlyMuster: Kafka keeps no history."""
        raise OnlyMuster("Kafka keeps no history of a group")

    async def wait_stable(
        self, group_id: str, *, members: int | None = None, partitions: Topics = None, timeout_s: float
    ) -> GroupView:
        """Wait until the group is stable, has `members` members, and each partition of these topics has an owner."""
        topics = checks.texts("topics", partitions)
        checks.whole_or_none("members", members)
        what = stable_words(members, topics)

        def holds(group: GroupView) -> bool:
            counts = {name: len(self._topics.end_offsets(name)) for name in topics} if group.is_stable else {}
            return is_stable(group, members, counts)

        return await self._wait(group_id, holds, what, timeout_s)

    async def wait_until(
        self, group_id: str, predicate: Callable[[GroupView], object], *, what: str, topics: Topics, timeout_s: float
    ) -> GroupView:
        """Wait until the predicate is true. The predicate is called again and again."""
        checks.texts("topics", topics)
        checks.function("predicate", predicate)
        return await self._wait(group_id, predicate, checks.text("what", what), timeout_s)

    def _ends(
        self, group_id: str, topics: Topics, up_to: Mapping[tuple[str, int], int] | None
    ) -> dict[tuple[str, int], int]:
        """The offsets `up_to`, or else the present ends of these topics or of the group's topics."""
        if up_to is not None:
            return checks.places("up_to", up_to)
        of = checks.texts("topics", topics) or tuple(self.describe(group_id).end_offsets)
        return {(name, one): end for name in of for one, end in self._topics.end_offsets(name).items()}

    async def wait_consumed(
        self, group_id: str, topics: Topics = None, *, up_to: Mapping[tuple[str, int], int] | None, timeout_s: float
    ) -> GroupView:
        """Wait until the group has committed all present records of the topics, or the offsets `up_to`."""
        wanted = self._ends(group_id, topics, up_to)

        def holds(group: GroupView) -> bool:
            return has_consumed(group, wanted) if wanted else bool(group.offsets) and not group.total_lag

        return await self._wait(group_id, holds, f"has committed {wanted or 'all records'}", timeout_s)

    async def wait_acknowledged(
        self, group_id: str, topics: Topics = None, *, up_to: Mapping[tuple[str, int], int] | None, timeout_s: float
    ) -> GroupView:
        """Wait until the share group has accepted or archived all present records of the topics. `up_to`: those before
        these offsets.
        """
        wanted = self._ends(group_id, topics, up_to)
        return await self._wait(group_id, lambda group: is_done(group, wanted), done_words(wanted), timeout_s)

    async def wait_records(
        self,
        group_id: str,
        what: str,
        records: int = 1,
        topics: Topics = None,
        *,
        member: str | None = None,
        timeout_s: float,
    ) -> GroupView:
        """Wait until this many records of a share group are held, released, archived or dead letters. Raises OnlyMuster
        where the cluster does not report that.
        """
        condition = counted(what, records, checks.texts("topics", topics), member)

        def holds(group: GroupView) -> object:
            if any(getattr(view, what) < 0 for rows in group.records.values() for view in rows.values()):
                raise OnlyMuster(
                    f"only a Muster that this program has started reports which records are {COUNTS[what]}"
                )
            return condition.holds(group)

        return await self._wait(group_id, holds, condition.what, timeout_s)

    async def _wait(
        self, group_id: str, holds: Callable[[GroupView], object], what: str, timeout_s: float
    ) -> GroupView:
        checks.seconds("timeout", timeout_s)
        loop = asyncio.get_running_loop()
        due_s = loop.time() + timeout_s
        while True:
            group = self.describe(group_id)
            if holds(group):
                return group
            if loop.time() >= due_s:
                now = str(group) if group.state != DEAD else f"{group}\n  {others(self.ids())}"
                raise WaitFailed(group_id, what, timeout_s, now, self.timeline(group_id), self.interventions())
            await asyncio.sleep(CHECK_S)

    def interventions(self) -> list[str]:
        """An empty list: a test has no interventions on this cluster."""
        return []

    def timeline(self, _: str) -> list[str]:
        """The lines about a group for the report of a failed wait."""
        return ["Kafka keeps no history"]

    def remove(self, group_id: str, member: str) -> None:
        """Remove a member as Kafka's administrators do."""
        remove_member(self._cluster, self.describe(group_id), member)

    def reset_offsets(self, group_id: str, to: Any, topics: Topics = None) -> Offsets:
        """Reset committed offsets as Kafka's administrators do."""
        return reset(
            self._cluster, self._topics, self.describe(group_id), checks.reset(to), checks.texts("topics", topics)
        )

    def configure(self, group_id: str, configs: Mapping[str, object]) -> None:
        """Set configs of the group, as Kafka's administrators do."""
        configure(self._cluster, group_id, checks.properties("configs", configs))

    def rebalance(self, _: str) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("a rebalance can be forced only on a Muster that this program has started")

    def expire(self, _: str, __: str) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("a session can be ended only on a Muster that this program has started")

    def hold_joins(self, _: str) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("joins can be held only on a Muster that this program has started")

    def release(self, _: str) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("joins can be held only on a Muster that this program has started")

    def wait_acknowledgements_held(self, _: str, __: int, *, timeout_s: float) -> NoReturn:  # noqa: ARG002  # it is refused in any case
        """Raises OnlyMuster."""
        raise OnlyMuster("acknowledgements can be held only on a Muster that this program has started")

    def hold_acknowledgements(self, _: str) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("acknowledgements can be held only on a Muster that this program has started")

    def release_acknowledgements(self, _: str) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("acknowledgements can be held only on a Muster that this program has started")

    def expire_locks(self, _: str, __: str | None = None, **where: Any) -> NoReturn:  # noqa: ARG002  # it is refused in any case
        """Raises OnlyMuster."""
        raise OnlyMuster("locks can be ended only on a Muster that this program has started")

    def deliver_again(self, _: str, __: str, ___: int, ____: int) -> NoReturn:
        """Raises OnlyMuster."""
        raise OnlyMuster("records can be delivered again only on a Muster that this program has started")

    def wait_held(self, _: str, __: int, *, timeout_s: float) -> NoReturn:  # noqa: ARG002  # the signature of Groups
        """Raises OnlyMuster."""
        raise OnlyMuster("joins can be held only on a Muster that this program has started")


class AdminNodes:
    """The methods for nodes that Kafka's Admin client has, too."""

    def __init__(self, cluster: KafkaClient) -> None:
        self._cluster = cluster

    def ids(self) -> list[int]:
        """The ids of all live brokers."""
        self._cluster.refresh_nodes()
        return sorted(self._cluster.nodes)

    def coordinator_of(self, group_id: str) -> int:
        """The broker that coordinates the group."""
        address = coordinator_of(self._cluster, group_id).address
        return next(node for node, at in self._cluster.nodes.items() if show(*at) == address)

    def describe(self, node_id: int) -> NodeView:
        """What clients know of a broker."""
        self._cluster.refresh_nodes()
        at = self._cluster.nodes.get(node_id)
        if at is None:
            raise CannotBeDone(f"there is no node {node_id}")
        return NodeView(node_id, "up", None, (show(*at),), -1, -1, -1)

    def _only(self, *_: object) -> NoReturn:
        raise OnlyMuster("nodes can be stopped, killed and paused only on a Muster that this program has started")

    stop = kill = pause = resume = return_ = _only


def refused(failure: Exception) -> CannotBeDone | None:
    """The error that a test gets when the cluster cannot be used; None for any other failure."""
    return _without_option(failure) if isinstance(failure, RequestFailed) else None


def _without_option(failure: RequestFailed) -> CannotBeDone:
    return CannotBeDone(_OPTION.sub("", str(failure)))


def _nothing() -> None:
    pass
