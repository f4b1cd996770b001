"""A thread for each request to another server, so that the event loop does not wait for the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from muster.coordinator.system.jobs import outcome


class FetchThread:
    """A `Worker` whose work may never end: the process ends without it."""

    def __init__(self, post: Callable[[Callable[[], object]], object]) -> None:
        self._post = post
        self._closed = False

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        """See `Worker`."""
        threading.Thread(target=self._run, args=(work, done), name="muster-fetch", daemon=True).start()

    def _run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        result, error = outcome(work)
        if not self._closed:
            self._post(lambda: done(result, error))

    def close(self) -> None:
        """Ignore the results of work that has not ended."""
        self._closed = True
