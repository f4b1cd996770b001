"""A server and all its verbs, put together for `muster.testing` and the control over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from muster.coordinator.config import Config
from muster.coordinator.server import Server
from muster.coordinator.server.machine import Machine
from muster.coordinator.server.metrics import ServerMetrics
from muster.testcontrol.checks import texts
from muster.testcontrol.errors import intervention_lines
from muster.testcontrol.faults.engine import Faults
from muster.testcontrol.groups import Groups
from muster.testcontrol.interceptors import Interceptors, held_acknowledgements, held_joins
from muster.testcontrol.machine import ControlledMachine, Disk
from muster.testcontrol.nodes import Nodes
from muster.testcontrol.scenarios.kinds import KINDS
from muster.testcontrol.scenarios.scenario import Parts, Scenarios
from muster.testcontrol.shares import Shares
from muster.testcontrol.topics import Topics
from muster.testcontrol.virtual_time import LIMIT_MS, SETTLE_MS, TIMEOUT_MS, TimeView, VirtualTime
from muster.testcontrol.waits import stable


class ServerControl:
    """One server and its verbs. `server` starts and stops as any server. Call methods from the server's event loop."""

    def __init__(
        self,
        config: Config,
        *,
        machine: Machine | None = None,
        loaded: Callable[[], object] = lambda: None,
        metrics: ServerMetrics | None = None,
    ) -> None:
        """`loaded`: see `Server`. `metrics`: counts what the server does."""
        self.joins = held_joins()
        self.acknowledgements = held_acknowledgements()
        self._when_loaded = loaded
        own_machine = ControlledMachine() if machine is None else machine
        self.server = Server(
            config,
            machine=own_machine,
            loaded=self._loaded,
            observer=metrics,
            on_group_events=None if metrics is None else metrics.count_events,
            figures=None if metrics is None else metrics.coordinator.shards,
        )
        self.interceptors = interceptors = Interceptors(self.server)
        for held in (self.joins, self.acknowledgements):
            held.when_holding = partial(interceptors.set_active, held.intercept)
        self.shares = Shares(self.server)
        self.groups = Groups(self.server, self.joins, self.acknowledgements, self.shares)
        self.topics = Topics(self.server)
        self.nodes = Nodes(self.server)
        self.faults = Faults(self.server, interceptors)
        self.time = VirtualTime(self.server)
        disk = own_machine.disk if isinstance(own_machine, ControlledMachine) else Disk()
        disk.error = None  # a scenario of the previous server may have set the error
        self.scenarios = Scenarios(Parts(self.server, self.faults, self.groups, self.nodes, disk), KINDS)
        self.groups.interventions = self.interventions

    def _loaded(self) -> None:
        self.shares.attach()
        self._when_loaded()

    @property
    def ahead_ms(self) -> int:
        """How far the server's time is ahead of the machine's; negative: behind."""
        return self.time.now().ahead_ms if self.time.is_movable else 0

    def take_failure(self, rule_id: str | None = None) -> BaseException | None:
        """An exception that test code in a rule has raised: see `Faults`."""
        return self.faults.take_failure(rule_id)

    def interventions(self) -> list[str]:
        """The interventions of the test, in words."""
        is_frozen = self.time.is_movable and self.time.now().frozen
        return intervention_lines(
            self.faults.log.after(),
            [one.to_json() for one in self.scenarios.running],
            is_frozen=is_frozen,
            ahead_ms=self.ahead_ms,
        )

    async def run_until(
        self,
        group_id: str | None = None,
        members: int | None = None,
        partitions: str | Iterable[str] | None = None,
        *,
        limit_ms: int = LIMIT_MS,
        settle_ms: int = SETTLE_MS,
        timeout_ms: int = TIMEOUT_MS,
    ) -> TimeView:
        """Advance time until the group is stable, as `Groups.wait_stable` defines it. Without a group: until no group
        is in a rebalance. Raises RanInVain.
        """
        what, condition = "no group is in a rebalance", self.time.is_idle
        if group_id is not None:
            wanted = stable(self.server, members, texts("topics", partitions))
            what = f"group {group_id} {wanted.what}"

            def condition() -> bool:
                return bool(wanted.holds(self.groups.describe(group_id)))

        return await self.time.run_until(
            condition, what=what, limit_ms=limit_ms, settle_ms=settle_ms, timeout_ms=timeout_ms
        )

    async def tidy(self) -> None:
        """Reset all for the next test: release held requests, continue nodes and time, and remove faults and hits."""
        self.joins.release_all()
        self.acknowledgements.release_all()
        self.scenarios.end_all()
        self.faults.clear()
        self.faults.log.forget()
        if self.time.is_movable:
            self.time.thaw()
        await self.nodes.resume_all()
