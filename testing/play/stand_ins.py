"""The time and the random numbers of aiokafka in a play. The client aiokafka uses Python's modules `time` and `random`,
not its event loop.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from muster.testing.play.machine import PlayClock

CLIENT: Final = "aiokafka"
BUILDER: Final = "DefaultRecordBatchBuilder"


class Times:
    """In place of the module `time`: it has the time of the play."""

    def __init__(self, clock: PlayClock) -> None:
        self._clock = clock

    def time(self) -> float:
        """Seconds since 1970."""
        return self._clock.now().wall_ms / 1_000

    def monotonic(self) -> float:
        """Seconds."""
        return self._clock.mono_us() / 1_000_000

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@contextmanager
def standing_in(clock: PlayClock, chance: random.Random) -> Iterator[None]:
    """A block in which the modules of aiokafka use these in place of Python's. Other modules keep Python's."""
    if find_spec(CLIENT) is not None:
        import aiokafka  # noqa: F401
    instead: dict[str, Any] = {"time": Times(clock), "random": chance}
    real: dict[str, Any] = {"time": time, "random": random}
    builder = getattr(sys.modules.get(f"{CLIENT}.producer.message_accumulator"), BUILDER, None)
    if builder is not None:
        real[BUILDER], instead[BUILDER] = builder, _stamped(builder, clock)
    changed: list[tuple[Any, str, Any]] = []
    for name, module in list(sys.modules.items()):
        if name == CLIENT or name.startswith(f"{CLIENT}."):
            for attribute, one in real.items():
                if vars(module).get(attribute) is one:
                    changed.append((module, attribute, one))
                    setattr(module, attribute, instead[attribute])
    try:
        yield
    finally:
        for module, attribute, one in changed:
            setattr(module, attribute, one)


def _stamped(builder: type[Any], clock: PlayClock) -> type[Any]:
    """A builder of batches that gives each record a time. The compiled builder would take the machine's time for a
    record without one.
    """

    class Stamped(builder):  # type: ignore[misc]  # of aiokafka there are no types here
        """See `_stamped`."""

        def append(self, offset: int, timestamp: int | None, *more: Any, **named: Any) -> Any:
            """Append a record."""
            stamp_ms = clock.now().wall_ms if timestamp is None else timestamp
            return super().append(offset, stamp_ms, *more, **named)

    return Stamped
