"""Regular work on the open partitions: failed logs are opened again, and old producers expire.

A damaged log waits for an operator. Shards and journals open their own logs again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from muster.coordinator.log import LogError
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, at_once
from muster.coordinator.topics.catalogue import Catalogue
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.open_topics import Found
from muster.coordinator.topics.settings import TopicSettings

_logger = structlog.get_logger("muster.topics")

CHECK_EVERY_MS: Final = 1_000
MAX_CHECKS_APART: Final = 32
"""The longest pause between two tries of one log, in searches. The pause doubles after each failure."""


class OfflineRetry:
    """Searches from time to time, until `find` returns None."""

    def __init__(
        self,
        clock: Clock,
        find: Callable[[], Found | None],
        run_job: Callable[[Job[Any]], object] = at_once,
    ) -> None:
        """`find`: the offline logs that may be tried now; None ends the search for ever. `run_job`: runs a job."""
        self._clock = clock
        self._run_job = run_job
        self._find = find
        self._checks_apart = 1
        self._left = 1
        self._reasons: dict[tuple[str, int], str] = {}
        """The last logged reason why each log is offline, so that a retry does not log the same line."""

    def start(self) -> None:
        """Begin to search."""
        self._clock.machine.call_at(self._clock.machine.mono_ms() + CHECK_EVERY_MS, self._check)

    def _check(self) -> None:
        found = self._find()
        if found is None:
            return
        self._left -= 1
        if self._left > 0:
            self.start()
        else:
            self._run_job(self._trying(found))

    def _trying(self, found: Found) -> Job[None]:
        failed = False
        try:
            # the search ends before the first try: the search must not find a log again that stays offline
            waiting = []
            for one in found:
                if one is None:
                    yield None
                else:
                    waiting.append(one)
            names = {(topic, partition) for topic, partition, _ in waiting}
            self._reasons = {name: reason for name, reason in self._reasons.items() if name in names}
            for one in waiting:
                failed |= self._fails(*one)
                yield None
        finally:
            self._checks_apart = min(self._checks_apart * 2, MAX_CHECKS_APART) if failed else 1
            self._left = self._checks_apart
            self.start()

    def _fails(self, topic: str, partition: int, reopen: Callable[[], object]) -> bool:
        try:
            reopen()
        except LogError as error:
            reason = str(error)
            if self._reasons.get((topic, partition)) != reason:
                self._reasons[topic, partition] = reason
                _logger.error("a log stays offline", topic=topic, partition=partition, reason=reason)
            return True
        self._reasons.pop((topic, partition), None)
        _logger.info("a log is online again", topic=topic, partition=partition)
        return False


CHECKED_AT_ONCE: Final = 100
"""How many partitions are looked at in one step."""


class PartitionMaintenance:
    """The regular work, which runs from `start` until the logs are closed."""

    def __init__(self, catalogue: Catalogue, settings: Callable[[], TopicSettings]) -> None:
        self._catalogue = catalogue
        self._settings = settings

    def start(self) -> None:
        """Begin the regular work."""
        self._expire_producers_later()
        catalogue = self._catalogue
        OfflineRetry(catalogue.clock, self._offline, lambda job: catalogue.logs.run_job(job)).start()

    def _offline(self) -> Found | None:
        """Return the logs that `OfflineRetry` is to open again; None when the logs are closed."""
        logs = self._catalogue.logs
        if not logs.is_open:
            return None
        return self._failed_logs() if logs.gone is None else iter(())

    def _failed_logs(self) -> Found:
        catalogue = self._catalogue
        if catalogue.metadata_log.log.failure is not None:
            yield METADATA_TOPIC, 0, catalogue.reopen_metadata_log
        if catalogue.metadata_log.log.failure is None:
            catalogue.pending.resume()  # changes that waited while the data directory was not available
        yield from catalogue.open.failed_logs()

    def _expire_producers_later(self) -> None:
        clock = self._catalogue.clock
        interval_ms = self._settings().producer_id_expiration_check_interval_ms
        clock.call_at(clock.now().mono_ms + interval_ms, self._expire_producers, interval_ms)

    def _expire_producers(self) -> None:
        if self._catalogue.logs.is_open:
            self._catalogue.logs.run_job(self._expiring_producers())

    def _expiring_producers(self) -> Job[None]:
        now, expiration_ms = self._catalogue.clock.now(), self._settings().producer_id_expiration_ms
        checked = 0
        try:
            for topic in self._catalogue.open.walk():
                for partition in list(topic.partitions):
                    if partition is not None:
                        yield from partition.expiring_producers(now, expiration_ms)
                    checked += 1
                    if not checked % CHECKED_AT_ONCE:
                        yield None
        finally:
            self._expire_producers_later()
