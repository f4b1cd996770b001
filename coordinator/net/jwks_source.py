"""The keys of an identity provider for the tokens of OAUTHBEARER, from a file or a URL.

A file is read again when it has changed. A thread fetches from a URL regularly, and soon after a token names an unknown
key. If a fetch fails, the previous keys remain.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from muster.coordinator.security.sasl.jwt import BadKeys, JwkSet
from muster.coordinator.security.sasl.oauthbearer import InvalidToken
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Worker

log = structlog.get_logger("muster.net")

MAX_BYTES: Final = 512 << 10
"""The limit of a document with keys, as in jose4j."""
MAX_MISSING: Final = 16
"""The most ids of unknown keys that are remembered, as in Kafka."""
MISSING_MS: Final = 60_000
"""How long an unknown key is not fetched again."""
LONGEST_ID: Final = 1_000
"""The longest id of a key, in characters. A key with a longer id is not fetched."""
SOONEST_MS: Final = 5_000
"""The shortest time between two fetches for unknown keys, whatever ids clients name."""


class JwksFile:
    """A `KeySource` that reads a file."""

    def __init__(self, path: str) -> None:
        """Raises BadKeys."""
        self._path = path
        self._seen: tuple[int, ...] = _stamp(path)
        self._keys = read_file(path)

    def now(self) -> JwkSet:
        try:
            stamp = _stamp(self._path)
            if stamp != self._seen:
                self._seen = stamp
                self._keys = read_file(self._path)
                log.info("the keys for tokens were read anew", file=self._path, keys=len(self._keys.keys))
        except BadKeys as error:
            log.error("the new keys for tokens cannot be used, the old ones are kept", file=self._path, why=str(error))
        return self._keys

    def missing(self, kid: str) -> None:
        """See `KeySource`. A file has no further keys to fetch."""

    def stop(self) -> None:
        """See `KeySource`. This source has nothing to stop."""


def read_file(path: str) -> JwkSet:
    """The keys of a file. Raises BadKeys."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadKeys(_why(error)) from error
    if len(data) > MAX_BYTES:
        raise BadKeys(f"it has more than {MAX_BYTES} bytes")
    return JwkSet(data)


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


class RefreshIntervals(NamedTuple):
    """How often the keys are fetched. After a failure the delays double, up to `max_backoff_ms` in all."""

    refresh_ms: int
    backoff_ms: int
    max_backoff_ms: int


class JwksUrl:
    """A `KeySource` that fetches from a URL."""

    def __init__(
        self, url: str, fetch: Callable[[], bytes], intervals: RefreshIntervals, clock: Clock, worker: Worker
    ) -> None:
        self._url = url
        self._fetch = fetch
        self._intervals = intervals
        self._clock = clock
        self._worker = worker
        self._keys: JwkSet | None = None
        self._is_busy = False
        self._next: Timer | None = None
        self._missing: OrderedDict[str, int] = OrderedDict()
        self._not_before_ms = 0
        self._refresh()

    def now(self) -> JwkSet:
        if self._keys is None:
            raise InvalidToken("the keys for tokens could not be fetched yet")
        return self._keys

    def missing(self, kid: str) -> None:
        """See `KeySource`. The keys are fetched soon, unless they were fetched just now."""
        now_ms = self._clock.mono_ms()
        if len(kid) > LONGEST_ID or self._missing.get(kid, 0) > now_ms or self._not_before_ms > now_ms:
            return
        self._not_before_ms = now_ms + SOONEST_MS
        self._missing[kid] = now_ms + MISSING_MS
        self._missing.move_to_end(kid)
        if len(self._missing) > MAX_MISSING:
            self._missing.popitem(last=False)
        self._refresh()

    def stop(self) -> None:
        """Stop fetching."""
        self._worker.close()
        self._is_busy = True
        if self._next is not None:
            self._next.cancel()

    def _refresh(self) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        if self._next is not None:
            self._next.cancel()
        self._try(self._clock.mono_ms() + self._intervals.max_backoff_ms, self._intervals.backoff_ms)

    def _try(self, until_ms: int, wait_ms: int) -> None:
        def done(keys: JwkSet | None, error: Exception | None) -> None:
            if keys is not None:
                self._take(keys)
            else:
                self._failed(error or RuntimeError(), until_ms, wait_ms)

        self._worker.run(lambda: JwkSet(self._fetch()), done)

    def _take(self, keys: JwkSet) -> None:
        self._keys = keys
        for key in keys.keys:
            self._missing.pop(key.kid or "", None)
        log.debug("fetched the keys for tokens", url=self._url, keys=len(keys.keys))
        self._rest(self._intervals.refresh_ms)

    def _failed(self, error: Exception, until_ms: int, wait_ms: int) -> None:
        log.warning("the keys for tokens cannot be fetched", url=self._url, why=_why(error),
                    instead="tokens are refused" if self._keys is None else "the previous keys are used")  # fmt: skip
        left_ms = until_ms - self._clock.mono_ms()
        if left_ms > 0 and wait_ms > 0:
            self._call_in(min(wait_ms, left_ms), lambda: self._try(until_ms, 2 * wait_ms))
        else:
            # without any keys, no client could authenticate until the next regular fetch
            max_ms = max(self._intervals.max_backoff_ms, SOONEST_MS)
            self._rest(
                self._intervals.refresh_ms if self._keys is not None else min(max_ms, self._intervals.refresh_ms)
            )

    def _rest(self, ms: int) -> None:
        self._is_busy = False
        self._call_in(ms, self._refresh)

    def _call_in(self, ms: int, callback: Callable[[], object]) -> None:
        self._next = self._clock.call_at(self._clock.mono_ms() + ms, callback)
