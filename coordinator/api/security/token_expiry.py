"""Removes expired delegation tokens, every `delegation.token.expiry.check.interval.ms`."""

from __future__ import annotations

import structlog

from muster.coordinator.security.sasl.delegation_tokens import has_expired
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.topics import Topics
from muster.protocol.messages.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord

log = structlog.get_logger("muster.topics")


class TokenExpiry:
    """See the module."""

    def __init__(self, topics: Topics, clock: Clock, slices: JobQueue, interval_ms: int) -> None:
        self._topics = topics
        self._slices = slices
        self._clock = clock
        self._interval_ms = interval_ms
        self._timer: Timer
        self._wait()

    def stop(self) -> None:
        """Stop removing tokens."""
        self._timer.cancel()

    def _wait(self) -> None:
        due_ms = self._clock.mono_ms() + self._interval_ms
        self._timer = self._clock.call_at(due_ms, self._sweep, self._interval_ms)

    def _sweep(self) -> None:
        self._slices.run(self._sweeping(), lambda _: self._wait(), self)

    closed = False

    def fault(self, error: Exception) -> None:
        """See `jobs.Owner`."""
        log.error("delegation tokens that have expired cannot be removed, by a fault", exc_info=error)

    def _sweeping(self) -> Job[None]:
        wall_ms = self._clock.now().wall_ms
        over = [record for record in self._topics.state.tokens.values() if has_expired(record, wall_ms)]
        try:
            if over:
                yield from self._topics.writing([RemoveDelegationTokenRecord(record.token_id) for record in over])
        except ApiError as refusal:
            log.error("delegation tokens that have expired cannot be removed now", why=refusal.message)
        else:
            for record in over:
                log.info("a delegation token has expired", token=record.token_id, owner=record.owner)
