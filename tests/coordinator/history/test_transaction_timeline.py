"""What `muster transactions history` says of each event."""

from __future__ import annotations

import json
from datetime import UTC

from muster.coordinator.history.transaction_journal import plain_transaction_json, transaction_json
from muster.coordinator.history.transaction_timeline import TransactionTimeline, places
from muster.coordinator.transactions import events
from muster.coordinator.transactions.events import Event
from tests.coordinator.history.happenings import START, added, begun, ended, ending, expired, initialized


def lines(*happened: Event, everything: bool = False, open_at: int | None = None) -> list[str]:
    timeline = TransactionTimeline(UTC, everything=everything)
    reported = [line for event in happened for line in timeline.feed(json.loads(transaction_json(event, START)))]
    return reported if open_at is None else reported + timeline.end(open_at)


def test_the_timeline_shows_a_transaction_in_one_line() -> None:
    assert lines(initialized(), begun(), added({"orders": [0, 2]}), ending(), ended()) == [
        "--- 2023-11-14",
        "22:13:20 producer 4000 epoch 0 (client c, 127.0.0.1) began: the id is new",
        "22:13:20 transaction committed after 1.5 s; orders:0,2, offsets; producer 4000 epoch 0, its end took 7 ms",
    ]


def test_the_timeline_names_the_group_of_committed_offsets() -> None:
    timeline = TransactionTimeline(UTC, dates=False, groups=lambda value: ["g", value["kind"]])
    (line,) = timeline.feed(json.loads(transaction_json(ended(), START)))
    assert "; orders:0,2, offsets of g, transaction_committed; producer" in line


def test_the_full_timeline_shows_every_step_of_a_transaction() -> None:
    reported = lines(begun(), added({"orders": [0, 2]}), ending(), ending(events.TIMED_OUT, is_committed=False),
                 everything=True)  # fmt: skip
    assert reported[1:] == [
        "22:13:20 a transaction begins: producer 4000 epoch 0 (client c, 127.0.0.1)",
        "22:13:20 added to the transaction: orders:0,2",
        "22:13:20 its producer commits, open for 1.5 s, 3 partitions",
        "22:13:20 the coordinator aborts the transaction (it was open for longer than its timeout), open for 1.5 s, "
        "3 partitions",
    ]


def test_the_timeline_says_why_a_transaction_was_aborted() -> None:
    reported = lines(
        ended(events.ABORTED),
        ended(events.ABORTED, events.TIMED_OUT),
        ended(events.ABORTED, events.NEW_PRODUCER),
        ended(events.ABORTED, None),
    )
    rest = "; orders:0,2, offsets; producer 4000 epoch 0"
    assert reported[1:] == [
        f"22:13:20 transaction aborted after 1.5 s: its producer asked for it{rest}, its end took 7 ms",
        f"22:13:20 transaction aborted after 1.5 s: it was open for longer than its timeout{rest}, its end took 7 ms",
        f"22:13:20 transaction aborted after 1.5 s: another producer took the id over{rest}, its end took 7 ms",
        f"22:13:20 transaction aborted after 1.5 s{rest}",
    ]


def test_the_timeline_says_which_producer_has_the_id() -> None:
    reported = lines(initialized(events.NEW_PRODUCER, fenced=(4000, 0), epoch=1), initialized(events.NEW_PRODUCER),
                 initialized(events.SAME_PRODUCER), expired())  # fmt: skip
    assert reported[1:] == [
        "22:13:20 producer 4000 epoch 1 (client c, 127.0.0.1) took the id over; producer 4000 epoch 0 is fenced",
        "22:13:20 producer 4000 epoch 0 (client c, 127.0.0.1) took the id over",
        "22:13:20 producer 4000 epoch 0 (client c, 127.0.0.1) asked for a new epoch after an error",
        "22:13:20 the id was forgotten: idle for 10080 min 0 s",
    ]


def test_the_timeline_shows_transactions_that_are_still_open() -> None:
    reported = lines(begun(), added({"orders": [0, 2]}), open_at=START + 5_000)
    assert reported == ["22:13:20 a transaction is open, for 5 s of at most 1 min 0 s: 2 partitions"]
    assert lines(begun(), ended(), open_at=START)[1:] == lines(ended())[1:]


def test_the_timeline_shows_counted_refusals() -> None:
    counted = {
        "producer_id": 4000, "producer_epoch": 0, "api": "EndTxn", "error": "PRODUCER_FENCED", "client_id": "c",
        "host": "/h", "count": 2, "current_producer_id": 4000, "current_producer_epoch": 1,
    }  # fmt: skip
    timeline = TransactionTimeline(UTC, dates=False, everything=True)

    def said(kind: str, facts: dict[str, object]) -> str:
        (line,) = timeline.feed(json.loads(plain_transaction_json(kind, "pay-1", START, facts)))
        return line.partition(" ")[2]

    what = "2 EndTxn requests of producer 4000 epoch 0 (client c, h) refused: PRODUCER_FENCED"
    assert said("producer_fenced", counted) == f"{what}: it is fenced; producer 4000 epoch 1 has the id"
    assert said("requests_refused", counted) == what
    assert said("requests_refused", counted | {"api": None}) == "2 more requests were refused, of many clients"
    loaded = {"partition": 7, "transactional_ids": 1, "records": 9, "took_ms": 4}
    assert said("shard_loaded", loaded) == "the server read its log: 1 transactional id of partition 7 in 4 ms"
    assert said("of_tomorrow", {}) == "of tomorrow"


def test_the_timeline_counts_many_topics() -> None:
    topics = {f"t{number}": [1, 0] for number in range(6)}
    assert places(topics) == "t0:0,1, t1:0,1, t2:0,1, t3:0,1, 2 more topics"
    assert (places({}), places(None)) == ("nothing", "very many partitions")
