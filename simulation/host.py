"""A process, as its machine and its connections know it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from muster.simulation.world import World


class Host(Protocol):
    """See `process.Process`."""

    world: World
    alive: bool
    """The process is there."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Its event loop."""

    @property
    def stands_still(self) -> bool:
        """It does nothing for now."""

    def does(self, what: Callable[..., object], *arguments: Any) -> None:
        """Something happens to it, and all that follows at once; later, when it stands still."""

    def turns(self) -> None:
        """Until nothing is left to do now."""

    def died(self) -> None:
        """It is gone, in the midst of whatever it did."""

    def accept(self, wire: Any) -> Any:
        """The server's side of a new connection; None when nobody listens any more."""

    def check_alive(self) -> None:
        """Raises Died when it has died in the midst of this turn."""
