"""The fast path of the two requests in each transaction. These are a Produce of one small batch, and a TxnOffsetCommit
of a few offsets.

The usual path is `api.records.produce` and `api.transactions.txn_offset_commit`, with `api.transactions.verification`.
Its jobs serve requests of any size and may be interrupted anywhere. A job of five generators, which waits twice for an
answer, takes a sixth of a transaction's time. The fast path makes calls instead, in the same order. The same functions
decide: the authorizer, the checks of a batch, the guard of the log, the transaction coordinator.

**One switch.** The handlers offer each request to the fast path first, unless `Node.short_ways` is off (tests compare).
The fast path takes the request, or returns False. Then it has changed nothing that the usual path would not change
again, and the usual path handles the request. The fast path only takes valid requests for one or few partitions. It
never reports a refusal before the coordinator was asked.

**How equality is proven**: `tests/coordinator/api/short/` plays random histories on two nodes. One of them has the fast
path off.
"""
