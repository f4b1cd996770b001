"""Faults on demand, for tests: the rules of `testcontrol.faults`, put in force from a test's thread.

from muster.testing.faults import Error, Match, times

with muster.faults.add(Match(api="OffsetCommit", group="billing"), Error("NOT_COORDINATOR"), times(2)) as fault:
    ...
assert fault.hits == 2
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from muster.testcontrol.errors import NoSuchFault, WrongFault
from muster.testcontrol.faults.actions import (
    Action,
    Call,
    Cut,
    Delay,
    Error,
    Hold,
    LoseAnswer,
    Note,
    Throttle,
    Trickle,
)
from muster.testcontrol.faults.matching import Match, Request
from muster.testcontrol.faults.older_broker import OlderBroker
from muster.testcontrol.faults.rule import When, every, on_call, once, times, until_released, with_probability
from muster.testing.loop_bridge import LoopBridge, raise_failure
from muster.testing.verbs import Behind

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
"""Rows of the log: `number`, `rule`, `name`, `wall_ms`, `node`, `api`, `version`, `client_id`, `principal`, `peer`,
`group`, `member`, and what the rule `did`.
"""
FaultList = list["Fault"]
AsyncFaultList = list["AsyncFault"]


class Fault:
    """One rule that is or was in force. As a context manager it is removed at the end of the block."""

    def __init__(self, portal: LoopBridge, behind: Behind, rule: Any) -> None:
        self.id: str = rule.id
        self._portal = portal
        self._behind = behind
        self._rule = rule

    def __repr__(self) -> str:
        return f"Fault({self._rule.to_json()!r})"

    def describe(self) -> dict[str, Any]:
        """The rule as it is now: `match`, `then`, `when`, `name`, the numbers `seen`, `hits`, `held`, and `spent`."""
        found: dict[str, Any] = self._rule.to_json()
        return found

    def log(self) -> Hits:
        """The requests that it hit, oldest first."""
        found: Hits = self._portal.call(lambda: self._behind().faults.log.after())
        return [hit for hit in found if hit["rule"] == self.id]

    @property
    def hits(self) -> int:
        """The number of requests that it acted on."""
        return int(self._rule.hits)

    @property
    def held(self) -> int:
        """The number of requests and answers that it holds now."""
        return int(self._rule.held)

    def release(self) -> None:
        """Release what it holds; a rule with `until_released` ends. Raises NoSuchFault."""
        self._portal.call(lambda: self._behind().faults.release(self.id))

    def remove(self) -> None:
        """Remove it, and release what it holds; has no effect after the first call."""
        self._portal.call(lambda: _removed(self._behind(), self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if self._portal.is_open:
            self.remove()
            raise_failure(self._portal.call(lambda: self._behind().take_failure(self.id)), error)


class Faults:
    """All rules of a server."""

    def __init__(self, portal: LoopBridge, behind: Behind) -> None:
        self._portal = portal
        self._behind = behind

    @property
    def aio(self) -> AsyncFaults:
        """The same for asynchronous tests."""
        return AsyncFaults(self._portal, self._behind)

    def add(self, match: Match = EVERYTHING, then: Action = NOTED, when: When = ALWAYS, *, name: str = "") -> Fault:
        """Put a rule in force: which requests, what happens to them (by default they are only noted), and when. Raises
        WrongFault.
        """
        rule = self._portal.call(lambda: self._behind().faults.add(match, then, when, name=name))
        return Fault(self._portal, self._behind, rule)

    def log(self, after: int = 0) -> Hits:
        """The hits of all rules, oldest first; the newest thousand are kept. `after`: only hits with a greater
        `number`.
        """
        found: Hits = self._portal.call(lambda: self._behind().faults.log.after(after))
        return found

    def clear(self) -> None:
        """Remove all rules."""
        self._portal.call(lambda: self._behind().faults.clear())

    def list(self) -> FaultList:
        """All rules in the order in which they were added, also spent ones and those of scenarios."""
        return [
            Fault(self._portal, self._behind, rule) for rule in self._portal.call(lambda: self._behind().faults.rules)
        ]


class AsyncFault:
    """One rule that is or was in force, for asynchronous tests."""

    def __init__(self, fault: Fault, portal: LoopBridge, behind: Behind) -> None:
        self.sync = fault
        self._portal = portal
        self._behind = behind

    @property
    def id(self) -> str:
        """The id of the rule in the log."""
        return self.sync.id

    @property
    def hits(self) -> int:
        """The number of requests that it acted on."""
        return self.sync.hits

    @property
    def held(self) -> int:
        """The number of requests and answers that it holds now."""
        return self.sync.held

    def describe(self) -> dict[str, Any]:
        """See `Fault.describe`."""
        return self.sync.describe()

    async def log(self) -> Hits:
        """The requests that it hit, oldest first."""
        found: Hits = await self._portal.awaited(lambda: self._behind().faults.log.after())
        return [hit for hit in found if hit["rule"] == self.id]

    async def release(self) -> None:
        """Release what it holds; a rule with `until_released` ends. Raises NoSuchFault."""
        await self._portal.awaited(lambda: self._behind().faults.release(self.id))

    async def remove(self) -> None:
        """Remove it, and release what it holds; has no effect after the first call."""
        await self._portal.awaited(lambda: _removed(self._behind(), self.id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._portal.is_open:
            await self.remove()
            raise_failure(await self._portal.awaited(lambda: self._behind().take_failure(self.id)), error)


class AsyncFaults:
    """All rules of a server, for asynchronous tests."""

    def __init__(self, portal: LoopBridge, behind: Behind) -> None:
        self._portal = portal
        self._behind = behind

    async def add(
        self, match: Match = EVERYTHING, then: Action = NOTED, when: When = ALWAYS, *, name: str = ""
    ) -> AsyncFault:
        """Put a rule in force: which requests, what happens to them (by default they are only noted), and when. Raises
        WrongFault.
        """
        rule = await self._portal.awaited(lambda: self._behind().faults.add(match, then, when, name=name))
        return AsyncFault(Fault(self._portal, self._behind, rule), self._portal, self._behind)

    async def log(self, after: int = 0) -> Hits:
        """The hits of all rules, oldest first; the newest thousand are kept. `after`: only hits with a greater
        `number`.
        """
        found: Hits = await self._portal.awaited(lambda: self._behind().faults.log.after(after))
        return found

    async def clear(self) -> None:
        """Remove all rules."""
        await self._portal.awaited(lambda: self._behind().faults.clear())

    async def list(self) -> AsyncFaultList:
        """See `Faults.list`."""
        rules: Iterable[Any] = await self._portal.awaited(lambda: self._behind().faults.rules)
        return [AsyncFault(Fault(self._portal, self._behind, rule), self._portal, self._behind) for rule in rules]


def _removed(verbs: Any, rule_id: str) -> None:
    if any(rule.id == rule_id for rule in verbs.faults.rules):
        verbs.faults.remove(rule_id)
