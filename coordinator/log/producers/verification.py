"""Batches of a transaction whose coordinator is being asked whether it knows of them (KIP-890; Kafka's
VerificationGuard and VerificationStateEntry). Pure.

Who wants to append the first batch of a transaction takes a guard, asks the coordinator, and appends with the guard. A
marker that comes between makes the guard void: the transaction of which the coordinator spoke has ended.
"""

from __future__ import annotations

from typing import Final


class Guard:
    """Says that a batch was asked for. Only this very object opens the way for it."""

    __slots__ = ()


NOT_NEEDED: Final = Guard()
"""For batches that need no verification: `transaction.partition.verification.enable` is off."""


class Verification:
    """What is known of the transaction that one producer is about to begin in one log."""

    __slots__ = ("began_ms", "epoch", "guard", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, began_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.began_ms = began_ms
        self.guard = Guard()
        self.lowest_sequence = sequence
        """Of the batches that were asked for: a later one must not come before it."""
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump
        """The client's epoch is raised by each end of a transaction: Produce 12, TxnOffsetCommit 5, and later."""

    def also(self, sequence: int, epoch: int) -> None:
        """Another batch of the same producer is asked for."""
        if epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence


class Verifications:
    """All that are under way in one log, by producer id."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> Verification:
        """That of a producer, made when there is none."""
        known = self._by_id.get(producer_id)
        if known is None:
            known = self._by_id[producer_id] = Verification(now_ms, sequence, epoch, supports_epoch_bump)
        known.also(sequence, epoch)
        return known

    def get(self, producer_id: int) -> Verification | None:
        """That of a producer."""
        return self._by_id.get(producer_id)

    def opens(self, producer_id: int, guard: Guard | None) -> bool:
        """Whether `guard` is the one that was given out for this producer, and nothing came between."""
        known = self._by_id.get(producer_id)
        return known is not None and known.guard is guard

    def appended(self, producer_id: int) -> None:
        """A batch of the transaction stands in the log: it is open, no guard is needed any more."""
        self._by_id.pop(producer_id, None)

    def marked(self, producer_id: int, epoch: int) -> None:
        """A marker stands in the log. One that has raised the epoch to that of the batches which are asked for ends the
        transaction before theirs.
        """
        known = self._by_id.get(producer_id)
        if known is not None and not (known.supports_epoch_bump and known.epoch == epoch):
            del self._by_id[producer_id]

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget those of which nothing came for so long."""
        for producer_id in [p for p, known in self._by_id.items() if now_ms - known.began_ms >= after_ms]:
            del self._by_id[producer_id]
