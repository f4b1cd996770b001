"""What is done to the open partitions as time passes: logs that failed are opened again, old producers expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.coordinator.topics.catalogue import Catalogue
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.offline_retry import Failed, OfflineRetry
from muster.coordinator.topics.settings import TopicSettings


class PartitionMaintenance:
    """Goes on until the logs are closed, once it has begun."""

    def __init__(self, catalogue: Catalogue, settings: Callable[[], TopicSettings]) -> None:
        """`settings`: those of now."""
        self._catalogue = catalogue
        self._settings = settings

    def start(self) -> None:
        """Begin."""
        self._expire_producers_later()
        OfflineRetry(self._catalogue.clock, self._offline).start()

    def _offline(self) -> Iterator[Failed] | None:
        """What `OfflineRetry` is to open again; None after the end."""
        logs = self._catalogue.logs
        if not logs.is_open:
            return None
        return self._failed_logs() if logs.gone is None else iter(())

    def _failed_logs(self) -> Iterator[Failed]:
        catalogue = self._catalogue
        if catalogue.metadata_log.log.failure is not None:
            yield METADATA_TOPIC, 0, catalogue.reopen_metadata_log
        if catalogue.metadata_log.log.failure is None:
            catalogue.pending.resume()  # what waited while the data directory was away
        yield from catalogue.open.failed_logs()

    def _expire_producers_later(self) -> None:
        clock = self._catalogue.clock
        interval_ms = self._settings().producer_id_expiration_check_interval_ms
        clock.call_at(clock.now().mono_ms + interval_ms, self._expire_producers, interval_ms)

    def _expire_producers(self) -> None:
        now, expiration_ms = self._catalogue.clock.now(), self._settings().producer_id_expiration_ms
        for topic in self._catalogue.open.by_name.values():
            for partition in topic.partitions:
                if partition is not None:
                    partition.expire_producers(now, expiration_ms)
        self._expire_producers_later()
