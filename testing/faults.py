"""Faults for tests: a test's thread puts rules of `testcontrol.faults` in force.

from muster.testing.faults import Error, Match, times

with muster.faults.add(Match(api="OffsetCommit", group="billing"), Error("NOT_COORDINATOR"), times(2)) as fault:
    ...
assert fault.hits == 2
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from muster.testcontrol.errors import NoSuchFault, WrongFault
from muster.testcontrol.faults.actions import Action, Call, Cut, Delay, Error, Hold, LoseAnswer, Note, Throttle, Trickle
from muster.testcontrol.faults.matching import Match, Request
from muster.testcontrol.faults.older_broker import OlderBroker
from muster.testcontrol.faults.rule import When, every, on_call, once, times, until_released, with_probability
from muster.testing.loop_bridge import LoopBridge, raise_failure
from muster.testing.verbs import Awaited, Behind, Blocking, Handle, verb

__all__ = [
    "Action",
    "AsyncFault",
    "AsyncFaults",
    "Call",
    "Cut",
    "Delay",
    "Error",
    "Fault",
    "Faults",
    "Hold",
    "LoseAnswer",
    "Match",
    "NoSuchFault",
    "Note",
    "OlderBroker",
    "Request",
    "Throttle",
    "Trickle",
    "When",
    "WrongFault",
    "every",
    "on_call",
    "once",
    "times",
    "until_released",
    "with_probability",
]

EVERYTHING = Match()
ALWAYS = When()
NOTED = Note()
Hits = list[dict[str, Any]]
"""A row for each request that a rule has hit: `number`, `rule`, `name`, `wall_ms`, `node`, `api`, `version`. More
fields are `client_id`, `principal`, `peer`, `group`, `member`, and what the rule `did`.
"""
FaultList = list["Fault"]
AsyncFaultList = list["AsyncFault"]


class _FaultVerbs(Handle):
    def __init__(self, bridge: LoopBridge, behind: Behind, rule: Any) -> None:
        super().__init__(bridge, behind)
        self.id: str = rule.id
        self._rule = rule

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._rule.to_json()!r})"

    def describe(self) -> dict[str, Any]:
        """The rule as it is now: `match`, `then`, `when`, `name`, the numbers `seen`, `hits`, `held`, and `spent`."""
        found: dict[str, Any] = self._rule.to_json()
        return found

    @property
    def hits(self) -> int:
        """The number of requests that the rule has acted on."""
        return int(self._rule.hits)

    @property
    def held(self) -> int:
        """The number of requests and answers that the rule holds now."""
        return int(self._rule.held)

    @verb
    def log(self) -> Hits:
        """The requests that the rule has hit, oldest first."""
        return [hit for hit in self._behind().faults.log.after() if hit["rule"] == self.id]

    @verb
    def release(self) -> None:
        """Release all that the rule holds. A rule with `until_released` ends. Raises NoSuchFault."""
        return self._behind().faults.release(self.id)

    @verb
    def remove(self) -> None:
        """Remove the rule, and release all that it holds. A second call has no effect."""
        faults = self._behind().faults
        if any(rule.id == self.id for rule in faults.rules):
            faults.remove(self.id)

    @verb
    def _take_failure(self) -> BaseException | None:
        return self._behind().take_failure(self.id)


class Fault(_FaultVerbs, Blocking):
    """A rule that is or was in force. As a context manager, the rule is removed at the end of the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if self._bridge.is_open:
            self.remove()
            raise_failure(self._take_failure(), error)


class AsyncFault(_FaultVerbs, Awaited):
    """A rule that is or was in force, for asynchronous tests."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._bridge.is_open:
            await self.remove()
            raise_failure(await self._take_failure(), error)


class _FaultsVerbs(Handle):
    @verb
    def _add(self, match: Match, then: Action, when: When, name: str) -> Any:
        return self._behind().faults.add(match, then, when, name=name)

    @verb
    def _rules(self) -> Sequence[Any]:
        return self._behind().faults.rules

    @verb
    def log(self, after: int = 0) -> Hits:
        """The newest thousand hits of all rules, oldest first. `after`: only hits with a greater `number`."""
        return self._behind().faults.log.after(after)

    @verb
    def clear(self) -> None:
        """Remove all rules."""
        return self._behind().faults.clear()


class Faults(_FaultsVerbs, Blocking):
    """All rules of a server."""

    @property
    def aio(self) -> AsyncFaults:
        """The same rules for asynchronous tests."""
        return AsyncFaults(self._bridge, self._behind)

    def add(self, match: Match = EVERYTHING, then: Action = NOTED, when: When = ALWAYS, *, name: str = "") -> Fault:
        """Put a rule in force. `match`: for which requests; `then`: what happens to them (by default they are only
        recorded); `when`: at which of them. Raises WrongFault.
        """
        return Fault(self._bridge, self._behind, self._add(match, then, when, name))

    def list(self) -> FaultList:
        """All rules in the order in which they were added, also spent rules and rules of scenarios."""
        return [Fault(self._bridge, self._behind, rule) for rule in self._rules()]


class AsyncFaults(_FaultsVerbs, Awaited):
    """All rules of a server, for asynchronous tests."""

    async def add(
        self, match: Match = EVERYTHING, then: Action = NOTED, when: When = ALWAYS, *, name: str = ""
    ) -> AsyncFault:
        """See `Faults.add`."""
        return AsyncFault(self._bridge, self._behind, await self._add(match, then, when, name))

    async def list(self) -> AsyncFaultList:
        """See `Faults.list`."""
        return [AsyncFault(self._bridge, self._behind, rule) for rule in await self._rules()]
