"""The settings of logs: the broker's, and a topic's own. Names are Kafka's property names with "_" for "."."""

from __future__ import annotations

from dataclasses import dataclass

MAX_INT64 = (1 << 63) - 1
HOUR_MS = 60 * 60 * 1000
MINUTE_MS = 60 * 1000


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Properties of the broker, with Kafka 4.4's defaults. `_ms` precedes `_minutes`, which precedes `_hours`."""

    log_segment_bytes: int = 1024 * 1024 * 1024
    log_roll_ms: int | None = None
    log_roll_hours: int = 168
    log_roll_jitter_ms: int | None = None
    log_roll_jitter_hours: int = 0
    log_index_size_max_bytes: int = 10 * 1024 * 1024
    log_index_interval_bytes: int = 4096
    log_retention_ms: int | None = None
    log_retention_minutes: int | None = None
    log_retention_hours: int = 168
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 5 * MINUTE_MS
    log_cleanup_policy: tuple[str, ...] = ("delete",)
    log_cleaner_enable: bool = True
    log_cleaner_threads: int = 1
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 128 * 1024 * 1024
    log_cleaner_io_max_bytes_per_second: float = 1.7976931348623157e308
    log_cleaner_delete_retention_ms: int = 24 * HOUR_MS
    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleaner_max_compaction_lag_ms: int = MAX_INT64
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_segment_delete_delay_ms: int = MINUTE_MS
    log_flush_interval_messages: int = MAX_INT64
    log_flush_interval_ms: int | None = None
    log_flush_scheduler_interval_ms: int = MAX_INT64
    log_flush_offset_checkpoint_interval_ms: int = MINUTE_MS
    log_flush_start_offset_checkpoint_interval_ms: int = MINUTE_MS
    log_preallocate: bool = False
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = MAX_INT64
    log_message_timestamp_after_max_ms: int = HOUR_MS
    message_max_bytes: int = 1024 * 1024 + 12
    compression_type: str = "producer"
    producer_id_expiration_ms: int = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Properties of one topic, as its logs use them. `dataclasses.replace` puts a topic's own values over the broker's.

    `file_delete_delay_ms` has no effect: no read is running when a segment is removed.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 168 * HOUR_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 168 * HOUR_MS
    """-1: records are kept for ever."""
    retention_bytes: int = -1
    """-1: without limit."""
    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = 24 * HOUR_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_INT64
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = MINUTE_MS
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64
    preallocate: bool = False
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = MAX_INT64
    message_timestamp_after_max_ms: int = HOUR_MS
    max_message_bytes: int = 1024 * 1024 + 12
    compression_type: str = "producer"

    @classmethod
    def of(cls, settings: LogSettings) -> LogConfig:
        """Return the properties of a topic that sets none itself (Kafka: ServerTopicConfigSynonyms)."""
        return cls(
            segment_bytes=settings.log_segment_bytes,
            segment_ms=_first(settings.log_roll_ms, settings.log_roll_hours * HOUR_MS),
            segment_jitter_ms=_first(settings.log_roll_jitter_ms, settings.log_roll_jitter_hours * HOUR_MS),
            segment_index_bytes=settings.log_index_size_max_bytes,
            index_interval_bytes=settings.log_index_interval_bytes,
            retention_ms=_retention_ms(settings),
            retention_bytes=settings.log_retention_bytes,
            cleanup_policy=tuple(settings.log_cleanup_policy),
            delete_retention_ms=settings.log_cleaner_delete_retention_ms,
            min_compaction_lag_ms=settings.log_cleaner_min_compaction_lag_ms,
            max_compaction_lag_ms=settings.log_cleaner_max_compaction_lag_ms,
            min_cleanable_dirty_ratio=settings.log_cleaner_min_cleanable_ratio,
            file_delete_delay_ms=settings.log_segment_delete_delay_ms,
            flush_messages=settings.log_flush_interval_messages,
            flush_ms=_first(settings.log_flush_interval_ms, settings.log_flush_scheduler_interval_ms),
            preallocate=settings.log_preallocate,
            message_timestamp_type=settings.log_message_timestamp_type,
            message_timestamp_before_max_ms=settings.log_message_timestamp_before_max_ms,
            message_timestamp_after_max_ms=settings.log_message_timestamp_after_max_ms,
            max_message_bytes=settings.message_max_bytes,
            compression_type=settings.compression_type,
        )

    @property
    def deletes(self) -> bool:
        """Whether `retention.ms` and `retention.bytes` remove old segments."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether compaction keeps only the latest record of each key, so that records need keys."""
        return "compact" in self.cleanup_policy

    @property
    def stamps_append_time(self) -> bool:
        """Whether the broker's time replaces the producer's."""
        return self.message_timestamp_type == "LogAppendTime"


def _first(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _retention_ms(settings: LogSettings) -> int:
    if settings.log_retention_ms is not None:
        retention_ms = settings.log_retention_ms
    elif settings.log_retention_minutes is not None:
        retention_ms = settings.log_retention_minutes * MINUTE_MS
    else:
        retention_ms = settings.log_retention_hours * HOUR_MS
    return -1 if retention_ms < 0 else retention_ms
