"""Whether a log can still be written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import structlog

from muster.coordinator.log.errors import DirectoryGone, LogOffline

_logger = structlog.get_logger("muster.log")


class Availability:
    """Whether a log can be written. After a failed write it cannot: a later append could follow a gap."""

    __slots__ = ("_partition", "_topic", "failure", "when_offline")

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self.failure: LogOffline | None = None
        """Why nothing can be appended any more; None while the log works."""
        self.when_offline: Callable[[LogOffline], object] = _nothing
        """Called when the log goes offline."""

    def fail(self, path: str, error: OSError) -> LogOffline:
        """Take the log offline, unless it is offline already. Returns the error to raise."""
        is_told = isinstance(error, DirectoryGone)
        failure = LogOffline(path, error.strerror or str(error), is_told=is_told)
        if self.failure is None:
            self.failure = failure
            if not is_told:
                _logger.error("a log is offline", topic=self._topic, partition=self._partition, path=path,
                              reason=failure.reason)  # fmt: skip
            self.when_offline(failure)
        return failure

    @contextlib.contextmanager
    def failing(self, path: str) -> Iterator[None]:
        """Take the log offline when the code inside raises OSError. Raises LogOffline then."""
        try:
            yield
        except OSError as error:
            raise self.fail(path, error) from error

    def raise_if_offline(self) -> None:
        """Raises LogOffline when the log is offline."""
        if self.failure is not None:
            raise LogOffline(self.failure.path, self.failure.reason, is_told=self.failure.is_told)

    def come_back(self) -> None:
        """Go on with the files that the log has kept open: the data directory is back."""
        if self.failure is not None and self.failure.is_told:
            self.failure = None

    def close(self, path: str) -> LogOffline:
        """Note that the log is closed. Returns the error for callers that still wait."""
        if self.failure is None:
            self.failure = LogOffline(path, "it is closed")
        self.when_offline = _nothing  # a closed log stays in no reference cycle
        return self.failure


def _nothing(_: LogOffline) -> None:
    """Do nothing: no one waits for the log."""
