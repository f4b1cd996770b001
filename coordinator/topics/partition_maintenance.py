"""Regular work on the open partitions: failed logs are opened again, and old producers expire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.catalogue import Catalogue
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.offline_retry import OfflineRetry
from muster.coordinator.topics.open_topics import Found
from muster.coordinator.topics.settings import TopicSettings

LOOKED_AT_ONCE: Final = 100
"""Partitions whose producers are checked in one step, if they have few producers."""


class PartitionMaintenance:
    """The regular work. It runs from `start` until the logs are closed."""

    def __init__(self, catalogue: Catalogue, settings: Callable[[], TopicSettings]) -> None:
        """`settings`: returns the present settings."""
        self._catalogue = catalogue
        self._settings = settings

    def start(self) -> None:
        """Begin."""
        self._expire_producers_later()
        catalogue = self._catalogue
        OfflineRetry(catalogue.clock, self._offline, lambda job: catalogue.logs.behind(job)).start()

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
            self._catalogue.logs.behind(self._expiring_producers())

    def _expiring_producers(self) -> Job[None]:
        now, expiration_ms = self._catalogue.clock.now(), self._settings().producer_id_expiration_ms
        looked = 0
        try:
            for topic in list(self._catalogue.open.by_name.values()):
                for partition in list(topic.partitions):
                    if partition is not None:
                        yield from partition.expiring_producers(now, expiration_ms)
                    looked += 1
                    if not looked % LOOKED_AT_ONCE:
                        yield None
        finally:
            self._expire_producers_later()
