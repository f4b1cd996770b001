"""Alerts begin and end once, and webhooks get them once, not in quiet times, and again only after a while."""

from __future__ import annotations

from muster.coordinator.alerts.book import ENDED_MS, FIRING, MAX_OPEN, RESOLVED, Alert, AlertBook

HOUR = 3_600_000


def alert(group: str | None = "g", rule: str = "stuck", *who: str) -> Alert:
    return Alert(group, rule, "it is stuck", who, 5, "certain", None, ())


def test_an_alert_begins_once_and_ends_when_it_was_not_seen_for_a_while() -> None:
    book = AlertBook(HOUR)
    assert [one.status for one in book.begins_and_ends({"g": [alert()]}, 0)] == [FIRING]
    assert book.begins_and_ends({"g": [alert()]}, 5_000) == []
    assert book.open("g") == book.open() == [alert()]
    assert book.open("other") == []
    assert book.begins_and_ends({"g": []}, 5_000 + ENDED_MS - 1) == []
    assert book.begins_and_ends({"other": []}, 9 * ENDED_MS) == []  # nobody has looked at the group
    assert [one.status for one in book.begins_and_ends({"g": []}, 9 * ENDED_MS)] == [RESOLVED]
    assert book.open() == []
    assert book.counts == {"stuck": 1}


def test_other_members_of_a_group_are_another_alert_and_other_partitions_are_not() -> None:
    book = AlertBook(HOUR)
    for rule, more in (("crash_loop", 2), ("stalled", 1)):
        begun = [*book.begins_and_ends({"g": [alert("g", rule, "a")]}, 0),
                 *book.begins_and_ends({"g": [alert("g", rule, "b")]}, 0)]  # fmt: skip
        assert len(begun) == more


def sent(book: AlertBook, now_ms: int, *, is_there: bool = True, is_quiet: bool = False) -> list[str]:
    book.begins_and_ends({"g": [alert()] if is_there else []}, now_ms)
    return [one.status for one in book.to_send(now_ms, is_quiet=is_quiet)]


def test_webhooks_get_an_alert_again_only_after_the_time_for_repetition() -> None:
    book = AlertBook(HOUR)
    assert sent(book, 0) == [FIRING]
    assert sent(book, HOUR - 1) == []
    assert sent(book, HOUR) == [FIRING]
    assert sent(book, HOUR + ENDED_MS, is_there=False) == [RESOLVED]
    assert sent(book, HOUR + 2 * ENDED_MS) == []  # it came back soon: nothing new
    assert sent(book, HOUR + 3 * ENDED_MS, is_there=False) == []
    assert sent(book, 4 * HOUR, is_there=False) == []
    assert sent(book, 4 * HOUR + 1) == [FIRING]


def test_without_repetition_an_alert_that_goes_on_is_sent_once() -> None:
    book = AlertBook(-1)
    assert sent(book, 0) == [FIRING]
    assert sent(book, 100 * HOUR) == []


def test_in_quiet_times_webhooks_get_nothing_and_then_what_is_still_open() -> None:
    book = AlertBook(HOUR)
    assert sent(book, 0, is_quiet=True) == []
    assert sent(book, HOUR, is_quiet=True) == []
    assert sent(book, HOUR + 1) == [FIRING]
    assert sent(book, 2 * HOUR, is_there=False, is_quiet=True) == []
    assert sent(book, 2 * HOUR + 1, is_there=False) == [RESOLVED]
    short = AlertBook(HOUR)
    assert sent(short, 0, is_quiet=True) == []
    assert sent(short, ENDED_MS, is_there=False, is_quiet=True) == []
    assert sent(short, HOUR, is_there=False) == []  # it began and ended in the quiet time


def test_the_number_of_open_alerts_is_bounded() -> None:
    book = AlertBook(HOUR)
    book.begins_and_ends({f"g{number}": [alert(f"g{number}")] for number in range(MAX_OPEN + 5)}, 0)
    assert len(book.open()) == MAX_OPEN
