"""Batches of a transaction that its coordinator has to confirm (KIP-890).

They are Kafka's VerificationGuard and VerificationStateEntry. Pure.

The caller gets a guard for the first batch of a transaction, asks the coordinator, and appends with the guard. A marker
in between makes the guard invalid: the transaction that the coordinator confirmed has ended.
"""

from __future__ import annotations

from typing import Final


class Guard:
    """Stands for one requested verification. Only this very object permits the append."""

    __slots__ = ()


NOT_NEEDED: Final = Guard()
"""The guard for batches without verification: `transaction.partition.verification.enable` is off."""


class Verification:
    """The verification of the transaction that one producer is about to begin in one log."""

    __slots__ = ("began_ms", "epoch", "guard", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, began_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.began_ms = began_ms
        self.guard = Guard()
        self.lowest_sequence = sequence
        """The lowest sequence of the batches to verify: no later one may be appended before it."""
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump
        """Whether each end of a transaction raises the client's epoch: Produce 12, TxnOffsetCommit 5, and later."""

    def also(self, sequence: int, epoch: int) -> None:
        """Add another batch of the same producer."""
        if epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence


class Verifications:
    """All running verifications of one log, by producer id."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> Verification:
        """Return the verification of a producer, after creating it if the producer has none."""
        known = self._by_id.get(producer_id)
        if known is None:
            known = self._by_id[producer_id] = Verification(now_ms, sequence, epoch, supports_epoch_bump)
        known.also(sequence, epoch)
        return known

    def get(self, producer_id: int) -> Verification | None:
        """Return the verification of a producer, if it has one."""
        return self._by_id.get(producer_id)

    def opens(self, producer_id: int, guard: Guard | None) -> bool:
        """Whether `guard` is the guard of this producer's verification, so that no marker made it invalid."""
        known = self._by_id.get(producer_id)
        return known is not None and known.guard is guard

    def appended(self, producer_id: int) -> None:
        """Note that a batch of the transaction was appended: the transaction is open and needs no guard."""
        self._by_id.pop(producer_id, None)

    def marked(self, producer_id: int, epoch: int) -> None:
        """Note that a marker was appended. It makes the producer's guard invalid, with one exception.

        The exception is a marker with the epoch of the batches to verify. It has raised the epoch, and ends the
        transaction before theirs.
        """
        known = self._by_id.get(producer_id)
        if known is not None and not (known.supports_epoch_bump and known.epoch == epoch):
            del self._by_id[producer_id]

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget verifications that began `after_ms` ago or earlier."""
        for producer_id in [p for p, known in self._by_id.items() if now_ms - known.began_ms >= after_ms]:
            del self._by_id[producer_id]
