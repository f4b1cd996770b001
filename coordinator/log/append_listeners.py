"""Calls listeners after each append to a log."""

from __future__ import annotations

from collections.abc import Callable


class AppendListeners:
    """Functions that are called after each append, and when more of the log has become durable.

    They must be quick. `callbacks` has them in the order in which they were added. The caller iterates over it: a
    method would cost one more call for each append.
    """

    __slots__ = ("callbacks",)

    def __init__(self) -> None:
        self.callbacks: tuple[Callable[[], object], ...] = ()

    def add(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call it from now on. Returns a function that ends these calls."""
        self.callbacks = (*self.callbacks, callback)

        def remove() -> None:
            self.callbacks = tuple(held for held in self.callbacks if held is not callback)

        return remove

    def clear(self) -> None:
        """Remove all callbacks."""
        self.callbacks = ()
