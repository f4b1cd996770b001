"""The errors with which topics and partitions refuse a request: one of Kafka's error codes and a sentence."""

from __future__ import annotations

from collections.abc import Sequence


class ApiError(Exception):
    """A request, or one row of it, is refused.

    `error_code` is Kafka's; `message` is the sentence for responses, or None where Kafka sends no sentence.
    """

    def __init__(self, error_code: int, message: str | None = None) -> None:
        super().__init__(error_code, message)
        self.error_code = error_code
        self.message = message


class InvalidRecords(ApiError):
    """A batch is refused for some records. Each such record has a row (index in the batch, sentence) (KIP-467)."""

    def __init__(self, error_code: int, message: str, records: Sequence[tuple[int, str]]) -> None:
        super().__init__(error_code, message)
        self.record_errors = tuple(records)
