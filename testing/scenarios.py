"""Starts scenarios for tests: failures of real clusters, by name (docs/testcontrol.md lists them)."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from muster.testing.loop_bridge import LoopBridge
from muster.testing.verbs import Behind


class Scenario:
    """A started scenario. As a context manager, with or without `async`, the scenario ends at the end of the block."""

    def __init__(self, bridge: LoopBridge, behind: Behind, answer: dict[str, Any]) -> None:
        self.id: str = answer["id"]
        self.name: str = answer["name"]
        self._bridge = bridge
        self._behind = behind

    def __repr__(self) -> str:
        return f"Scenario({self.name!r})"

    @property
    def steps(self) -> list[str]:
        """The steps of the scenario until now, in words."""
        found: list[str] = self._bridge.call(lambda: self._behind().scenarios.find(self.id).to_json())["steps"]
        return found

    @property
    def is_done(self) -> bool:
        """Whether the scenario has no more steps."""
        return bool(self._bridge.call(lambda: self._behind().scenarios.find(self.id).to_json())["done"])

    def end(self) -> None:
        """End the scenario, and release all that it holds. Raises NoSuchFault when it has ended already."""
        self._bridge.call(lambda: self._behind().scenarios.end(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self._bridge.is_open:
            self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        if self._bridge.is_open:
            await self._bridge.awaited(lambda: self._behind().scenarios.end(self.id))


async def _started(behind: Behind, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = (await behind().scenarios.start(name, parameters)).to_json()
    return answer


def start(bridge: LoopBridge, behind: Behind, name: str, parameters: dict[str, Any]) -> Scenario:
    """Start a scenario by its name. Raises NoSuchFault, CannotBeDone, and WrongFault for a wrong parameter."""
    return Scenario(bridge, behind, bridge.call(lambda: _started(behind, name, parameters)))


async def start_aio(bridge: LoopBridge, behind: Behind, name: str, parameters: dict[str, Any]) -> Scenario:
    """Start a scenario as `start` does, in an asynchronous test."""
    return Scenario(bridge, behind, await bridge.awaited(lambda: _started(behind, name, parameters)))
