"""Workers for work that would take too long on the event loop, and cannot be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol


class Worker(Protocol):
    """Does work that would take too long on the event loop."""

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        """Do `work`, then on the event loop `done(result, error)`: one of them is None, or both."""

    def close(self) -> None:
        """Finish the running work, and begin no other."""


class Thread:
    """A `Worker` of one thread, which starts with the first work.

    Large requests run one after the other, so that only one takes memory.
    """

    def __init__(self, post: Callable[[Callable[[], object]], object]) -> None:
        """`post`: runs a callable on the event loop soon, from any thread (`loop.call_soon_threadsafe`)."""
        self._post = post
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        """See `Worker`."""
        if self._closed:
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="muster-large")
        self._executor.submit(self._run, work, done)

    def _run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        result, error = outcome(work)
        if not self._closed:
            self._post(lambda: done(result, error))

    def close(self) -> None:
        """See `Worker`."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)


class AtOnce:
    """A `Worker` that runs work in the caller's thread: in memory, in tests, in virtual time."""

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        """See `Worker`."""
        done(*outcome(work))

    def close(self) -> None:
        """Do nothing."""


def outcome(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Run the work: (result, None) or (None, error)."""
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - the caller gets it
        return None, error
