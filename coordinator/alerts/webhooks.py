"""Sends alerts to webhooks, as CloudEvents in JSON. Each URL has its own queue: one that fails holds up no other.

A thread waits for the network, never the event loop. What cannot be sent is sent again, later each time. When a queue
is full, its oldest event is lost.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit

import structlog

from muster.coordinator.alerts.book import Report
from muster.coordinator.config import ConfigError
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs.jobs import Worker
from muster.coordinator.system.wall_time import UTC, format_wall

log = structlog.get_logger("muster.groups")

MAX_WEBHOOKS: Final = 10
"""The most URLs."""
MAX_WAITING: Final = 1_000
"""The most events that wait for one URL."""
TRIES: Final = 12
"""How often an event is sent before it is given up."""
FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 300_000
"""The wait after a failure, which doubles each time."""
CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
SENT: Final = "sent"
RETRIED: Final = "retried"
LOST: Final = "lost"
"""The outcomes of `Webhooks.counts`. `LOST`: given up, refused or pushed out of the queue."""
_TRY_AGAIN: Final = frozenset((408, 425, 429))
"""Refusals that may end. After another refusal of the client's fault (4xx), sending again does not help."""


def urls_of(text: str | None) -> list[str]:
    """The URLs of the property, divided by commas or spaces. Raises ConfigError, without the secret part of a URL."""
    found = [] if text is None else text.replace(",", " ").split()
    for number, url in enumerate(found, 1):
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            is_url = False
        if not is_url:
            raise ConfigError(f"muster.alerts.webhooks: URL {number} is none; http://… or https://… was expected")
    if len(found) > MAX_WEBHOOKS:
        raise ConfigError(f"muster.alerts.webhooks: {len(found)} URLs; {MAX_WEBHOOKS} are the most")
    return found


def place_of(url: str) -> str:
    """The part of a URL that is no secret: scheme and host."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"


def cloud_event(report: Report, cluster_id: str, now_ms: int) -> bytes:
    """The CloudEvent of a report (CloudEvents 1.0, structured). An event that is sent again has the same id."""
    alert = report.alert
    key = json.dumps([cluster_id, *alert.key, alert.since_ms, report.status, now_ms])
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        "source": f"/muster/clusters/{cluster_id}",
        "type": f"muster.alert.{report.status}",
        "time": format_wall(now_ms, "%Y-%m-%dT%H:%M:%SZ", UTC),
        "datacontenttype": "application/json",
        "data": {"status": report.status, "cluster": cluster_id, **alert.to_json()},
    }
    if alert.group is not None:
        event["subject"] = alert.group
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")


class Webhook:
    """The queue of one URL."""

    def __init__(
        self, url: str, send: Callable[[str, bytes], object], clock: Clock, worker: Worker, counts: Counter[str]
    ) -> None:
        """`send` sends an event to a URL, and may raise OSError; `worker` runs it."""
        self._url = url
        self._send = send
        self._clock = clock
        self._worker = worker
        self._counts = counts
        self._waiting: deque[bytes] = deque()
        self._tries = 0
        """How often the first event was sent."""
        self._is_busy = False
        self._timer: Timer | None = None

    def put(self, event: bytes) -> None:
        """Send an event after those that wait."""
        if len(self._waiting) >= MAX_WAITING:
            # the first event may be on its way
            del self._waiting[1]
            self._counts[LOST] += 1
        self._waiting.append(event)
        if not self._is_busy:
            self._try()

    def _try(self) -> None:
        self._is_busy = True
        event = self._waiting[0]
        self._worker.run(lambda: self._send(self._url, event), self._done)

    def _done(self, _: object, error: Exception | None) -> None:
        self._tries += 1
        if error is None:
            self._next(SENT)
            return
        is_refused = isinstance(error, HTTPError) and 400 <= error.code < 500 and error.code not in _TRY_AGAIN
        if self._tries == 1 or is_refused:
            log.warning("a webhook cannot be called", webhook=place_of(self._url), why=_why(error))
        if is_refused or self._tries >= TRIES:
            self._next(LOST)
            return
        self._counts[RETRIED] += 1
        wait_ms = min(FIRST_WAIT_MS << (self._tries - 1), LONGEST_WAIT_MS)
        self._timer = self._clock.call_at(self._clock.mono_ms() + wait_ms, self._try)

    def _next(self, outcome: str) -> None:
        self._counts[outcome] += 1
        self._waiting.popleft()
        self._tries = 0
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._timer = self._clock.call_at(self._clock.mono_ms(), self._try)

    def stop(self) -> None:
        """Send nothing more."""
        self._waiting.clear()
        self._is_busy = True
        self._worker.close()
        if self._timer is not None:
            self._timer.cancel()


def _why(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"status {error.code}"
    return getattr(error, "strerror", None) or str(getattr(error, "reason", "")) or type(error).__name__


class Webhooks:
    """All webhooks of a server."""

    def __init__(
        self,
        urls: Sequence[str],
        send: Callable[[str, bytes], object],
        clock: Clock,
        new_worker: Callable[[], Worker],
    ) -> None:
        """`new_worker` makes the thread of one URL."""
        self.counts: Counter[str] = Counter()
        """How many events had which outcome."""
        self._hooks = [Webhook(url, send, clock, new_worker(), self.counts) for url in urls]

    def report(self, reports: Sequence[Report], cluster_id: str, now_ms: int) -> None:
        """Send reports to each URL."""
        for event in [cloud_event(one, cluster_id, now_ms) for one in reports] if self._hooks else ():
            for hook in self._hooks:
                hook.put(event)

    def stop(self) -> None:
        """Send nothing more."""
        for hook in self._hooks:
            hook.stop()
