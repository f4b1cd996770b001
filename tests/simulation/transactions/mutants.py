"""Cores of transactions with a deliberate fault, one rule each: they prove that the checkers can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest

from muster.coordinator.state_machine.output import Output
from muster.coordinator.transactions import add_partitions, end_txn, init_producer_id, timeouts
from muster.coordinator.transactions.core import TransactionCore
from muster.coordinator.transactions.state import State
from muster.coordinator.transactions.transaction import Transaction

Break = Callable[[pytest.MonkeyPatch], None]


def commits_become_aborts(patch: pytest.MonkeyPatch) -> None:
    """A commit is acknowledged, and the transaction is aborted."""
    for name in ("OLD_CLIENT", "NEW_CLIENT"):
        table = dict(getattr(end_txn, name))
        table.update({key: end_txn.ABORTED for key in table if key[0] == end_txn.ONGOING})
        patch.setattr(end_txn, name, MappingProxyType(table))


def zombies_add_partitions(patch: pytest.MonkeyPatch) -> None:
    """The request of a fenced producer is accepted."""
    patch.setattr(add_partitions, "_not_the_producer", lambda _one, _asked: 0)


def zombies_end_transactions(patch: pytest.MonkeyPatch) -> None:
    """A fenced producer of version 1 ends the transaction of another producer."""

    def decide(one: Transaction, request: Any) -> tuple[int, str]:
        if one.state in end_txn.ENDING:
            return 51, ""
        return end_txn._said(end_txn.OLD_CLIENT[one.state, bool(request.committed)])

    patch.setattr(end_txn, "_decide_old", decide)


def epochs_are_given_twice(patch: pytest.MonkeyPatch) -> None:
    """A producer that takes an id over gets the epoch of the producer before it."""
    give = init_producer_id._give

    def given(step: Any, command: Any, request: Any, one: Transaction, following: Any, cause: str) -> None:
        producer_id, epoch, last = following
        give(step, command, request, one, (producer_id, max(epoch - 1, 0), last), cause)

    patch.setattr(init_producer_id, "_give", given)


def a_partition_gets_no_marker(patch: pytest.MonkeyPatch) -> None:
    """One of several partitions gets no marker."""
    real = end_txn.markers

    def markers(step: Any, one: Transaction) -> Any:
        found = real(step, one)
        if found is not None and len(found[1].markers[0].topics) > 1:
            found[1].markers[0].topics.pop()
        return found

    patch.setattr(end_txn, "markers", markers)


def complete_before_the_markers(patch: pytest.MonkeyPatch) -> None:
    """The record of completion is written too early."""
    real = end_txn.markers

    def markers(step: Any, one: Transaction) -> Any:
        found = real(step, one)
        if found is not None:
            end_txn._complete(step, one)
        return found

    patch.setattr(end_txn, "markers", markers)


def nothing_times_out(patch: pytest.MonkeyPatch) -> None:
    """Transactions of dead producers stay open."""
    patch.setattr(timeouts, "_is_over", lambda *_: False)


def all_time_out_at_once(patch: pytest.MonkeyPatch) -> None:
    """A transaction is aborted at the first check."""
    patch.setattr(timeouts, "_is_over", lambda *_: True)


def markers_are_forgotten_by_a_load(patch: pytest.MonkeyPatch) -> None:
    """A transaction that was ending when the server died never ends."""
    real = TransactionCore.loaded

    def loaded(self: TransactionCore, now: Any) -> Output:
        output = real(self, now)
        return Output((), output.records, output.events)

    patch.setattr(TransactionCore, "loaded", loaded)


def a_load_forgets_partitions(patch: pytest.MonkeyPatch) -> None:
    """A load reads the log wrongly."""
    real = State.evolve_all

    def evolve_all(self: State, records: Any) -> int:
        count = real(self, records)
        for one in self.transactions.values():
            one.partitions = dict(list(one.partitions.items())[:1])
        return count

    patch.setattr(State, "evolve_all", evolve_all)


MUTANTS: Final[Mapping[str, tuple[Break, str]]] = {
    break_core.__name__: (break_core, found)
    for break_core, found in (
        (commits_become_aborts, ""),
        (zombies_add_partitions, "fenced producer adds"),
        (zombies_end_transactions, "fenced producer ends"),
        (epochs_are_given_twice, "was told"),
        (a_partition_gets_no_marker, "the log says"),
        (complete_before_the_markers, "no marker"),
        (nothing_times_out, "never ended"),
        (all_time_out_at_once, "before its timeout"),
        (markers_are_forgotten_by_a_load, "never ended"),
        (a_load_forgets_partitions, ""),
    )
}
"""Name -> how the core is broken, and words of the failure."""
