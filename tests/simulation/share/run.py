"""Histories of one share group: members, a node that dies, and a persister that fails. Answers are lost or repeated."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any, Final
from unittest.mock import patch

from muster.coordinator.runtime.share_partitions.led_partition import LedSharePartition
from muster.protocol.errors import ErrorCode
from tests.coordinator.api.harness import Answers
from tests.coordinator.api.share.serving import GROUP, MemoryPersister, Serving, serve_shares
from tests.coordinator.topics.support import add_topic
from tests.simulation.playing import Histories
from tests.simulation.share.ledger import Ledger

LOCK_MS: Final = 15_000
SHOWN: Final = 40
LATEST_MS: Final = 3_000
REFUSALS: Final = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
"""The errors of acknowledgements that have changed nothing."""

Range = tuple[int, int, int]
"""First offset, last offset, type of acknowledgement."""


class FailingPersister(MemoryPersister):
    """Answers late, or with an error. A write that fails may have been made."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self._life = 0

    def die(self) -> None:
        """Let no late answer reach the next process."""
        self._life += 1

    def write(self, request: Any, respond: Callable[[Any], object]) -> None:
        rng, happens = self._history.rng, self._history.happens
        if not self._history.is_calm and rng.random() < 0.06:
            happens("failed write")
            self._history.ledger.write_failed()
            self.error.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if rng.random() < 0.5:
                happens("failed write that was made")
                self.error.error_code = 0
                super().write(request, lambda _: None)
                self.error.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                self._answer(respond, self._copy())
            else:
                super().write(request, respond)
            self.error.error_code = 0
        else:
            super().write(request, respond)

    def _copy(self) -> Any:
        return type(self.error)(self.error.error_code, "a test")

    def _answer(self, respond: Callable[[Any], object], response: Any) -> None:
        if response is self.error:
            response = self._copy()
        history, life = self._history, self._life
        if history.is_calm or history.rng.random() < 0.5:
            respond(response)
            return
        at_ms = history.serving.clock.mono_ms() + history.rng.randrange(200)
        history.serving.clock.call_at(at_ms, lambda: respond(response) if life == self._life else None)


class Confirming(Answers):
    """Gives the ledger what the node confirms, even if the member never sees the answer."""

    def __init__(self, history: History, member: str, acks: dict[int, list[Range]]) -> None:
        super().__init__()
        self._history, self._member, self._acks = history, member, acks

    def __call__(self, response: Any) -> None:
        super().__call__(response)
        if response.error_code:
            return
        for topic in response.responses:
            for row in topic.partitions:
                error = getattr(row, "acknowledge_error_code", row.error_code)
                some = self._acks.get(row.partition_index, [])
                if error in REFUSALS:
                    self._history.ledger.refused(row.partition_index, self._member, some)
                elif not error:
                    now_ms = self._history.serving.clock.mono_ms()
                    self._history.ledger.confirmed(row.partition_index, self._member, some, now_ms)


class Member:
    """A client of the group. It may lose answers, and then asks again or begins again."""

    def __init__(self, history: History, name: str) -> None:
        self.name = name
        self._history = history
        self._epoch = 0
        self._held: dict[int, list[tuple[int, int]]] = {}
        self._waiting: tuple[Answers, bool] | None = None

    def act(self) -> None:
        """Take an answer, or send the next request."""
        history, rng = self._history, self._history.rng
        if self._waiting is not None:
            answers, is_last = self._waiting
            if not answers.all:
                if rng.random() < 0.1:
                    self.begin_anew()
                return
            self._waiting = None
            if not history.is_calm and rng.random() < 0.08:
                history.happens("answer lost")
                if rng.random() < 0.5:
                    self.begin_anew()
                return  # else the request is sent again with its epoch, or another request
            self._take(answers.one(), is_last=is_last)
        elif not history.is_calm and rng.random() < 0.03:
            self.begin_anew()
        else:
            self._ask()

    def begin_anew(self) -> None:
        """Lose the connection, and everything that the member knows."""
        self._history.happens("disconnected")
        if self.name in self._history.serving.channels:
            self._history.ledger.session_ended(self.name)
            self._history.serving.disconnect(self.name)
        self._waiting, self._epoch, self._held = None, 0, {}

    def _ask(self) -> None:
        history, rng = self._history, self._history.rng
        acks = self._acknowledgements() if self._epoch else {}
        for partition, some in acks.items():
            history.ledger.sent(partition, self.name, some)
        asked = {("t", partition): [(a, b, [kind]) for a, b, kind in some] for partition, some in acks.items()}
        is_renewing = any(kind == 4 for some in acks.values() for *_, kind in some)
        rows = [("t", partition) for partition in range(history.partitions)] if self._epoch == 0 else []
        is_last = not is_renewing and not history.is_calm and self._epoch > 0 and rng.random() < 0.05
        if is_last:
            history.happens("session ended")
            history.ledger.session_ended(self.name)
        epoch = -1 if is_last else self._epoch
        answers = Confirming(history, self.name, acks)
        if asked and rng.random() < 0.4:
            history.serving.send_acks(self.name, epoch, asked, is_renew_ack=is_renewing, answers=answers)
        else:
            limits: dict[str, Any] = {
                "max_wait_ms": rng.choice([0, 100, 500]),
                "max_records": rng.choice([1, 3, 10, 500]),
                "share_acquire_mode": rng.choice([0, 1]),
            }
            if is_renewing:
                limits = {"max_wait_ms": 0, "max_records": 0, "max_bytes": 0, "min_bytes": 0, "is_renew_ack": True}
            history.serving.send_fetch(self.name, epoch, *rows, acks=asked, answers=answers, **limits)
        self._waiting = answers, is_last

    def _acknowledgements(self) -> dict[int, list[Range]]:
        rng, calm = self._history.rng, self._history.is_calm
        found: dict[int, list[Range]] = {}
        is_renewing = not calm and rng.random() < 0.05
        for partition, ranges in self._held.items():
            kept: list[tuple[int, int]] = []
            for first, last in sorted(ranges):
                if calm:
                    found.setdefault(partition, []).append((first, last, 1))
                elif rng.random() < 0.3:
                    kept.append((first, last))
                else:
                    kind = 4 if is_renewing else rng.choice([1, 1, 1, 2, 2, 3, 0])
                    at = rng.randint(first, last) if rng.random() < 0.4 else last
                    found.setdefault(partition, []).append((first, at, kind))
                    if kind == 4:
                        kept.append((first, last))
                    elif at < last:
                        kept.append((at + 1, last))
            self._held[partition] = kept
            if partition in found and not calm and not is_renewing and rng.random() < 0.04:
                self._history.happens("record named twice")  # the node refuses the whole request
                last = found[partition][-1][1]
                found[partition].append((last, last, 1))
        return found

    def _take(self, response: Any, *, is_last: bool) -> None:
        if response.error_code:
            self.begin_anew()
            return
        self._epoch = 0 if is_last else self._epoch + 1
        if is_last:
            self._held = {}
        for topic in response.responses:
            for row in topic.partitions:
                for one in getattr(row, "acquired_records", ()):
                    self._held.setdefault(row.partition_index, []).append((one.first_offset, one.last_offset))


class History:
    """One group, its members and its node."""

    def __init__(self, seed: int, events: int) -> None:
        self.rng = Random(seed)
        self.events = events
        self.is_calm = False
        self.partitions = self.rng.choice([1, 2])
        self._limit = self.rng.choice([2, 3, 5])
        self._configs = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(self._limit),
            "share.record.lock.duration.ms": str(LOCK_MS),
        }
        self.ledger = Ledger(LOCK_MS, self._limit)
        self._counts: Counter[str] = Counter()
        self._last: deque[str] = deque(maxlen=SHOWN)
        self.serving = Serving()
        self._persister = self.serving.persister = FailingPersister(self)
        add_topic(self.serving.node.topics, "t", self.partitions)
        self._start_node()
        self._members = [Member(self, f"m{number}") for number in range(self.rng.choice([1, 2, 3, 4]))]

    def happens(self, what: str) -> None:
        """Note an event."""
        self._counts[what] += 1
        self._last.append(f"{self.now()} {what}")

    def _start_node(self) -> None:
        self.serving.shares = serve_shares(self.serving.node, self._persister, self.serving.letters)
        self.serving.shares.configured(GROUP, self._configs)

    def play(self) -> None:
        """Play the whole history. Raises the error of a broken rule."""
        acquire, ledger, clock = LedSharePartition.acquire, self.ledger, self.serving.clock

        def watched(share: LedSharePartition, wish: Any, *more: Any) -> Any:
            found, count = acquire(share, wish, *more)
            if found:
                self._last.append(f"{self.now()} {wish.member} acquires {found}")
                ledger.acquired(share.key.partition, wish.member, found, clock.mono_ms())
            return found, count

        with patch.object(LedSharePartition, "acquire", watched):
            for _ in range(self.events):
                self._event()
            self._settle()
        ledger.ended()

    def _event(self) -> None:
        rng, clock = self.rng, self.serving.clock
        kind = rng.random()
        if kind < 0.06:
            self._produce()
        elif kind < 0.07:
            self.happens("node died")
            self.serving.shares.stop()
            self._persister.die()
            self.ledger.node_died()
            for name in list(self.serving.channels):
                self.serving.disconnect(name)
            for member in self._members:
                member.__init__(self, member.name)
            self._start_node()
        elif kind < 0.3:
            clock.advance(rng.choice([1, 50, 500, LATEST_MS]))
        elif kind < 0.31:
            self.happens("locks ended")
            clock.advance(LOCK_MS)
        else:
            rng.choice(self._members).act()
            clock.advance(0)

    def _produce(self) -> None:
        partition, count = self.rng.randrange(self.partitions), self.rng.choice([1, 2, 5, 20])
        self.happens("produced")
        log = self.serving.node.topics.open.partition("t", partition)
        assert log is not None
        first = log.log.end_offset
        self.serving.append("t", count, partition)
        self.ledger.produced |= {(partition, offset) for offset in range(first, first + count)}

    def _settle(self) -> None:
        """After the faults: one member accepts everything."""
        self.is_calm = True
        clock = self.serving.clock
        if self.rng.random() < 0.5:  # the others keep their sessions and are silent, so that their locks end
            for member in self._members:
                member.begin_anew()
        clock.advance(LATEST_MS + LOCK_MS)
        last, idle = Member(self, "last"), 0
        while idle < 30:
            before = len(self.ledger.accepted)
            last.act()
            clock.advance(600)
            idle = 0 if len(self.ledger.accepted) > before else idle + 1

    def now(self) -> str:
        """The present time of the history."""
        return f"{self.serving.clock.mono_ms():,} ms"

    def described(self, error: Exception | None = None) -> list[str]:
        """The last events."""
        del error
        return list(self._last)

    def counted(self) -> Counter[str]:
        """How often each kind of event has happened."""
        return self._counts + Counter(
            {"acknowledged": len(self.ledger.accepted), "produced": len(self.ledger.produced)}
        )


SHARES: Final = Histories(History, "--share ")
