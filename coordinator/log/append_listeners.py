"""Who is told of each append to a log."""

from __future__ import annotations

from collections.abc import Callable


class AppendListeners:
    """Called after each append, and when more of the log has become durable. `callbacks`, which must be quick, in the
    order in which they were added: who tells them goes through it, for a method would cost a call for each append.
    """

    __slots__ = ("callbacks",)

    def __init__(self) -> None:
        self.callbacks: tuple[Callable[[], object], ...] = ()

    def add(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Tell it from now on; returns what ends that."""
        self.callbacks = (*self.callbacks, callback)

        def remove() -> None:
            self.callbacks = tuple(held for held in self.callbacks if held is not callback)

        return remove

    def clear(self) -> None:
        """Tell nobody any more."""
        self.callbacks = ()
