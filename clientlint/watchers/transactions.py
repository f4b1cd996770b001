"""Transactions: ended twice, ended with the wrong result, and producers that go on after they were fenced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.clientlint.calls import Call, Known, known
from muster.clientlint.watcher import MAX_ROWS, Broken, Kept, Watcher, broken_after, named
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode

_BEGINS: Final = frozenset(
    (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.PRODUCE)
)
_RESULTS: Final = {True: "commit", False: "abort"}


class _Transactions:
    """The transactions of one transactional id. `ended`: the last end, with producer id, epoch and result."""

    __slots__ = ("abortable", "ended", "fenced", "how", "producer")

    def __init__(self) -> None:
        self.ended: Known | None = None
        self.how = False
        self.producer = -1, -1
        """The producer id and epoch of the last end, refusal or fence."""
        self.fenced: Known | None = None
        self.abortable: Known | None = None


class Transactions(Watcher):
    """See the module."""

    apis = (*_BEGINS, ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID)

    def __init__(self) -> None:
        self._by_id: Kept[str, _Transactions] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        for transactional_id, *producer in _transactions(call):
            state = self._by_id.find(transactional_id)
            if state is None:
                continue
            if call.api_key == ApiKey.INIT_PRODUCER_ID:
                self._by_id.drop(transactional_id)
                continue
            is_same = tuple(producer) == state.producer
            if state.fenced is not None and is_same:
                what = f"{call.api} of {transactional_id} with producer id {producer[0]}, epoch {producer[1]},"
                yield from broken_after("producer-after-fence", call, what, state.fenced, named(state.fenced.error))
            elif call.api_key == ApiKey.END_TXN:
                yield from self._ends(call, transactional_id, state, is_same=is_same)
            else:
                state.ended = None

    @staticmethod
    def _ends(call: Call, transactional_id: str, state: _Transactions, *, is_same: bool) -> Iterator[Broken]:
        request = call.request
        result = _RESULTS[request.committed]
        if state.ended is not None and is_same:
            what = f"EndTxn ({result}) of {transactional_id}"
            why = f"EndTxn ({_RESULTS[state.how]}) had succeeded, with nothing added since"
            yield from broken_after("transaction-ended-twice", call, what, state.ended, why)
        if state.abortable is not None and request.committed:
            what = f"EndTxn (commit) of {transactional_id}"
            yield from broken_after("commit-after-abortable", call, what, state.abortable, "TRANSACTION_ABORTABLE")

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        if call.answer is None or call.api_key == ApiKey.INIT_PRODUCER_ID:
            return
        error = call.error
        for transactional_id, *producer in _transactions(call):
            if call.api_key == ApiKey.END_TXN and not error:
                state = self._by_id.put(transactional_id, _Transactions())
                state.ended, state.how = known(call), call.request.committed
            elif error in (ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE):
                state = self._by_id.put(transactional_id, _Transactions())
                if error == ErrorCode.PRODUCER_FENCED:
                    state.fenced = known(call, error)
                else:
                    state.abortable = known(call, error)
            else:
                continue
            state.producer = (producer[0], producer[1])
        yield from ()


def _transactions(call: Call) -> Iterator[tuple[str, int, int]]:
    """Each transactional id of a request, with producer id and epoch. Produce has these in its batches: -1 here."""
    request = call.request
    if call.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        for row in request.transactions[:MAX_ROWS]:
            if not row.verify_only:
                yield row.transactional_id, row.producer_id, row.producer_epoch
    elif request.transactional_id:
        yield request.transactional_id, getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
