"""Whether a log can be written, which `Engine` makes it durable, how far, and who listens to appends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import structlog

from muster.coordinator.log.errors import DirectoryGone, LogOffline
from muster.coordinator.log.segments.log_segments import LogSegments
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.log.storage.shared_sync import Waiter

_logger = structlog.get_logger("muster.log")


class Availability:
    """Whether a log can be written. After a failed write it cannot be written: a later append could follow a gap."""

    __slots__ = ("_partition", "_topic", "failure", "when_offline")

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self.failure: LogOffline | None = None
        """Why nothing can be appended any more; None while the log works."""
        self.when_offline: Callable[[LogOffline], object] = lambda _: None

    def fail(self, path: str, error: OSError) -> LogOffline:
        """Take the log offline, unless it is offline already. Returns the error to raise."""
        is_reported = isinstance(error, DirectoryGone)
        failure = LogOffline(path, error.strerror or str(error), is_reported=is_reported)
        if self.failure is None:
            self.failure = failure
            if not is_reported:
                _logger.error("a log is offline", topic=self._topic, partition=self._partition, path=path,
                              reason=failure.reason)  # fmt: skip
            self.when_offline(failure)
        return failure

    @contextlib.contextmanager
    def failing(self, path: str) -> Iterator[None]:
        """Take the log offline when the code inside raises OSError; raise LogOffline in its place."""
        try:
            yield
        except OSError as error:
            raise self.fail(path, error) from error

    def raise_if_offline(self) -> None:
        """Raises LogOffline when the log is offline."""
        if self.failure is not None:
            raise LogOffline(self.failure.path, self.failure.reason, is_reported=self.failure.is_reported)

    def go_online(self) -> None:
        """Continue with the open files, because the data directory is back."""
        if self.failure is not None and self.failure.is_reported:
            self.failure = None

    def close(self, path: str) -> LogOffline:
        """Note that the log is closed. Returns the error for callers that still wait."""
        if self.failure is None:
            self.failure = LogOffline(path, "it is closed")
        self.when_offline = lambda _: None  # a closed log stays in no reference cycle
        return self.failure


class AppendListeners:
    """Functions that are called after each append, and when more records are durable. These functions must be fast."""

    __slots__ = ("callbacks",)

    def __init__(self) -> None:
        self.callbacks: tuple[Callable[[], object], ...] = ()

    def add(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Add a callback. Returns a function that removes the callback."""
        self.callbacks = (*self.callbacks, callback)

        def remove() -> None:
            self.callbacks = tuple(held for held in self.callbacks if held is not callback)

        return remove

    def clear(self) -> None:
        """Remove all callbacks."""
        self.callbacks = ()


class Durability(Protocol):
    """How far one log is durable. `DiskDurability` explains the methods; another engine implements them too.

    `waits_for_sync`: whether a written record becomes durable only later. `is_copied`: the files are a copy of what the
    engine has, and another process may continue the log. `clean_offset`: how far a copied log was compacted.
    """

    waits_for_sync: bool
    is_copied: bool
    clean_offset: int
    durable_offset: int
    listeners: AppendListeners

    @property
    def recovery_point(self) -> int: ...
    @property
    def found_end(self) -> int: ...

    def when_durable(self, position: int, callback: Waiter) -> None:
        """See `DiskDurability`, for this method and all that follow."""

    def when_flushed(self, position: int, callback: Waiter) -> None: ...
    def when_synced(self, position: int, callback: Waiter) -> None: ...
    def appended(self, count: int) -> None: ...
    def rolled(self, old: Segment) -> None: ...
    def removed(self, removed: Sequence[Segment]) -> None: ...
    def replaced(self, old: Sequence[Segment], new: Segment, aborted: Sequence[AbortedTransaction]) -> None: ...
    def compacted_to(self, offset: int) -> None: ...
    def cut_to(self, end_offset: int) -> None: ...
    def fetch_segment(
        self, base_offset: int, then: Callable[[Exception | None], object], /
    ) -> Callable[[], object]: ...
    def in_background(self, job: Callable[[], object], done: Callable[[], object] = ..., /) -> None: ...
    def sync_if_older(self, mono_ms: int) -> None: ...
    def flush(self) -> None: ...
    def close(self, failure: LogOffline) -> None: ...


class Engine(Protocol):
    """Makes logs durable elsewhere than on the disk of the data directory, whose files are then a copy."""

    def durability(self, segments: LogSegments, availability: Availability) -> Durability:
        """Return the durability of a log that was just opened."""

    def dropped(self, folder: str) -> None:
        """Note that the log in a folder of that name is not needed any more: its topic was deleted."""
