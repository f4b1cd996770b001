"""What the deliveries of a share group say, in its verdict."""

from __future__ import annotations

from collections.abc import Iterable

from muster.pipeline.episodes.claims import CERTAIN, LIKELY, PERHAPS, Facts
from muster.pipeline.episodes.share_facts import Delivery, Hold, SharePartition, Shares, ShareStep
from muster.pipeline.episodes.verdict import Verdict, verdict
from tests.pipeline.episodes.timeline import HOUR_S, Group, ms

END_S = 2 * HOUR_S


def delivered(
    outcome: str, deliveries: int, *, at_s: float = 100, records: int = 1, offset: int = 42, partition: int = 0,
    moments: int = 1, held_s: float | None = None, for_s: float = 1, ends: Iterable[float] = (),
) -> Delivery:  # fmt: skip
    return Delivery(
        "orders", partition, outcome, deliveries, records, offset, ms(at_s), ms(at_s + for_s), moments,
        None if held_s is None else round(held_s * 1_000), [ms(one) for one in ends],
    )  # fmt: skip


def partition_of(
    partition: int = 0, accepted: int = 1_000, archived: int = 0, lag: int | None = 0, changed_s: float | None = END_S,
    idle: tuple[float, float] | None = None,
) -> SharePartition:  # fmt: skip
    changed_ms = None if changed_s is None else ms(changed_s)
    return SharePartition("orders", partition, accepted, archived, lag, ms(0), changed_ms, changed_ms,
                          *((None, None) if idle is None else map(ms, idle)))  # fmt: skip


def judged(shares: Shares, group: Group | None = None) -> Verdict:
    some = group or Group("a", "b")
    return verdict(some.episodes(), Facts(ms(END_S), ms(0), some.stays, some.rebalances, shares=shares))


def with_deliveries(*some: Delivery, **more: object) -> Verdict:
    return judged(Shares(some, [partition_of()])._replace(**more))


# ---- records that fail


def test_a_poison_record_is_named() -> None:
    found = with_deliveries(delivered("archived", 5))
    assert (found.level, found.kind) == ("look", "poison_record")
    assert found.text == "record 42 of orders-0 was archived after 5 deliveries at 15:08"
    (claim,) = found.claims
    assert (claim.confidence, claim.is_on, claim.who) == (CERTAIN, False, ("orders-0",))
    assert (claim.advice or "").endswith("; a dead-letter queue would keep it")
    assert [one.text for one in claim.evidence] == ["1 record of orders-0 from 42 on: archived after 5 deliveries"]


def test_several_poison_records_and_the_dead_letter_queue() -> None:
    some = [delivered("dead_letter", 2), delivered("dead_letter", 5, at_s=700, offset=77, records=2, partition=1)]
    text = "3 records (first 42 of orders-0) went to the dead-letter queue after up to 5 deliveries from 15:08 to 15:18"
    assert with_deliveries(*some).text == text


def test_rejections_gaps_and_few_deliveries_are_no_poison() -> None:
    some = [delivered("archived", 1), delivered("archived", 2), delivered("dead_letter", 1), delivered("passed", 5)]
    assert with_deliveries(*some, delivered("deleted", 5), delivered("waiting", 2)).level == "fine"


def test_a_record_that_is_not_done_needs_help() -> None:
    found = with_deliveries(delivered("waiting", 4))
    assert (found.level, found.kind) == ("help", "record_not_done")
    assert found.text == "record 42 of orders-0 was delivered 4 times since 15:08, and is not done"


def test_where_most_records_are_given_up_the_records_are_not_to_blame() -> None:
    some = delivered("archived", 5, at_s=END_S - 60, records=20)
    found = judged(Shares([some], [partition_of(accepted=3, archived=20)]))
    assert (found.level, found.kind) == ("help", "most_records_fail")
    text = "workers gave up 20 records of orders-0 and accepted 3 from 15:06 to 17:06: they fail at most records"
    assert found.text == text


def test_while_most_records_are_given_up_the_records_are_not_to_blame() -> None:
    steps = [ShareStep(ms(60 * at), ms(60 * at + 60), 100, 0) for at in range(10)]
    steps[5] = steps[5]._replace(accepted=2, archived=30)
    found = with_deliveries(delivered("archived", 5, at_s=310, records=30), steps=steps)
    assert (found.level, found.kind) == ("look", "most_records_fail")
    assert found.text == "workers gave up 30 records and accepted 2 from 15:11 to 15:12: they fail at most records"


# ---- locks


def late(times: int = 4, held_s: float | None = 30) -> Delivery:
    ends = [100 + 60 * at for at in range(times)]
    return delivered("accepted", 2, records=12, moments=times, held_s=held_s, for_s=60 * times, ends=ends)


def test_records_that_come_back_and_are_then_accepted_show_a_lock_that_is_too_short() -> None:
    found = with_deliveries(late())
    assert (found.level, found.kind) == ("look", "lock_too_short")
    text = "12 accepted records of orders-0 were available again 4 times from 15:08 to 15:12"
    assert found.text == f"{text}: perhaps the lock is too short"
    assert found.claims[0].confidence == PERHAPS
    assert found.claims[0].evidence[0].text.endswith("accepted after 2 deliveries, held for 30 s or longer")


def test_events_say_that_a_lock_was_over_or_that_workers_gave_records_back() -> None:
    found = with_deliveries(late()._replace(locks_over=4))
    text = "the lock of 12 accepted records of orders-0 was over 4 times from 15:08 to 15:12: it is too short"
    assert (found.text, found.claims[0].confidence) == (text, LIKELY)
    assert with_deliveries(late()._replace(locks_over=0)).level == "fine"


def test_records_that_a_member_gave_back_soon_or_seldom_say_nothing_of_locks() -> None:
    assert with_deliveries(late(held_s=0.2)).level == "fine"
    assert with_deliveries(late(held_s=None)).level == "fine"
    assert with_deliveries(late(times=2)).level == "fine"


def test_members_that_end_give_their_records_back() -> None:
    group = Group("a", "b")
    for at in range(3):
        group.restarts(101 + 60 * at, "a")
    assert judged(Shares([late()], [partition_of()]), group).kind != "lock_too_short"


# ---- workers without work


def hold(name: str, partition: int, from_s: float = 0, until_s: float | None = None) -> Hold:
    return Hold("orders", partition, f"{name}-1", name, ms(from_s), None if until_s is None else ms(until_s))


STEPS = [ShareStep(ms(60 * at), ms(60 * at + 60), 100, 0) for at in range(END_S // 60)]


def two(lag: int | None, took_s: float | None = None, **more: object) -> Shares:
    """Two workers with a partition each; in the partition 1, which b has, nothing is done.

    `took_s`: when a delivery ended there without an acceptance.
    """
    quiet = partition_of(1, accepted=0, lag=lag, changed_s=None)
    if took_s is not None:
        quiet = quiet._replace(changed_ms=ms(took_s))
    return Shares((), [partition_of(), quiet], STEPS, [hold("a", 0), hold("b", 1)])._replace(**more)


def test_a_worker_that_does_nothing_though_records_wait_perhaps_hangs() -> None:
    text = "b perhaps hangs: it alone has orders-1, where 60 records wait and none was done since 15:06"
    assert judged(two(60))[:2] == ("look", text)
    found = judged(two(60, took_s=600))
    assert (found.level, found.text, found.kind) == ("help", text, "stuck_worker")
    assert found.claims[0].advice == "look what b waits for"


def test_records_that_perhaps_came_just_now_do_not_show_that_a_worker_hangs() -> None:
    assert judged(two(3)).level == "fine"
    assert judged(two(3, took_s=600)).kind == "stuck_worker"


def test_a_worker_without_records_has_no_work() -> None:
    found = judged(two(0))
    assert (found.level, found.kind) == ("look", "starved_worker")
    assert found.text == "b had no work since 15:06: it alone had orders-1, and others did 12,000 records"
    assert found.claims[0].confidence == LIKELY
    # without the end of the partition, nobody knows whether records came
    assert judged(two(None)).text.startswith("b perhaps had no work since 15:06")
    assert judged(two(None)).claims[0].confidence == PERHAPS


def test_nobody_knows_who_does_the_work_of_a_partition_that_members_share() -> None:
    assert judged(two(60, holds=[hold("a", 0), hold("b", 1), hold("a", 1)])).level == "fine"
    # for the last minute b has it alone
    some = [hold("a", 0), hold("b", 1), hold("a", 1, 0, END_S - 60)]
    assert judged(two(60, holds=some)).text.endswith("none was done since 17:05")


def test_a_worker_that_works_elsewhere_is_not_without_work() -> None:
    assert judged(two(0, holds=[hold("a", 0), hold("b", 1), hold("b", 0)])).level == "fine"


def test_if_nobody_works_no_worker_is_without_work() -> None:
    assert judged(two(60, steps=[ShareStep(ms(0), ms(60), 19, 0)])).level == "fine"
    assert judged(two(60, holds=[hold("a", 0), hold("b", 1, 0, 30)])).level == "fine"


def test_a_worker_that_works_again_has_no_trouble_unless_it_had_no_work_for_half_of_its_time() -> None:
    idle = partition_of(1, lag=5, idle=(600, 1_200))
    shares = two(5, partitions=[partition_of(), idle], holds=[hold("a", 0), hold("b", 1, 0, 4_000)])
    assert judged(shares).level == "fine"
    idle = idle._replace(lag=0)
    assert judged(shares._replace(partitions=[partition_of(), idle])).level == "fine"
    short = [hold("a", 0), hold("b", 1, 300, 1_400)]
    found = judged(shares._replace(partitions=[partition_of(), idle], holds=short))
    text = "b perhaps had no work from 15:16 to 15:26: it alone had orders-1, and others did 1,000 records"
    assert (found.level, found.text) == ("look", text)
