"""Short ways of the two requests that each transaction consists of: a Produce of one small batch, a TxnOffsetCommit of
a few offsets.

The plain ways (`api.records.produce`, `api.transactions.txn_offset_commit`, with `api.transactions.verification`) are
jobs that may be interrupted anywhere, for requests of any size. A job of five generators, made and left to wait twice
for an answer, took a sixth of a transaction. Here the same is done by calls, in the same order, with the same functions
deciding: the authorizer, the checks of a batch, the guard of the log, the coordinator of the transaction.

**One switch.** The handlers offer each request to its short way first, unless `Node.short_ways` is off (tests compare).
It takes the request, or returns False and has changed nothing that asking once more would not change as well: then the
plain way has it. A short way only takes what has one partition or few, and nothing wrong: it never says why something
is refused before the coordinator was asked.

**How equality is proven**: `tests/coordinator/api/short/` plays random histories on two nodes, of which one has
the short ways off.
"""
