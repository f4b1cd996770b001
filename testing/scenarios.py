"""Failures of real clusters, by name, for tests (docs/testcontrol.md has them all)."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from muster.testing.loop_bridge import LoopBridge
from muster.testing.verbs import Behind


class Scenario:
    """A started scenario. As a context manager, with or without `async`, it is ended at the end of the block."""

    def __init__(self, portal: LoopBridge, behind: Behind, told: dict[str, Any]) -> None:
        self.id: str = told["id"]
        self.name: str = told["name"]
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"Scenario({self.name!r})"

    @property
    def steps(self) -> list[str]:
        """Its steps so far, in words."""
        found: list[str] = self._portal.call(lambda: self._behind().scenarios.find(self.id).to_json())["steps"]
        return found

    @property
    def is_done(self) -> bool:
        """Whether it has nothing more to do."""
        return bool(self._portal.call(lambda: self._behind().scenarios.find(self.id).to_json())["done"])

    def end(self) -> None:
        """End it, and release what it holds. Raises NoSuchFault when it has ended."""
        self._portal.call(lambda: self._behind().scenarios.end(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self._portal.is_open:
            self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        if self._portal.is_open:
            await self._portal.awaited(lambda: self._behind().scenarios.end(self.id))


async def _started(behind: Behind, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = (await behind().scenarios.start(name, parameters)).to_json()
    return told


def start(portal: LoopBridge, behind: Behind, name: str, parameters: dict[str, Any]) -> Scenario:
    """Start one by its name. Raises NoSuchFault, WrongFault for a parameter, and CannotBeDone."""
    return Scenario(portal, behind, portal.call(lambda: _started(behind, name, parameters)))


async def start_aio(portal: LoopBridge, behind: Behind, name: str, parameters: dict[str, Any]) -> Scenario:
    """See `start`."""
    return Scenario(portal, behind, await portal.awaited(lambda: _started(behind, name, parameters)))
