"""The store of what clients have pushed: its bounds, and the memory that it takes."""

from __future__ import annotations

import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.coordinator.state_machine.interface import Now
from muster.coordinator.telemetry import reports
from muster.coordinator.telemetry.client_instances import lifetime_ms
from muster.coordinator.telemetry.otlp import decode
from muster.coordinator.telemetry.reports import ClientReports, Point, Pushed, Report
from muster.coordinator.telemetry.subscriptions import ClientFacts
from tests.coordinator.telemetry.support import of_member

KEPT_MS = lifetime_ms(30_000)


def facts(name: str) -> ClientFacts:
    return ClientFacts(name, f"client-{name}", "apache-kafka-java", "4.4.0", "127.0.0.1", "50000")


def push(store: ClientReports, name: str, pushed: Pushed, now_ms: int = 0) -> None:
    store.add(facts(name), pushed, Now(now_ms, now_ms), KEPT_MS, has_ended=False)


def member(group_id: str, member_id: str, *points: Point) -> Pushed:
    return Pushed({"group_id": group_id, "group_member_id": member_id}, list(points), False)


def test_changes_are_added_up_and_missing_series_go() -> None:
    store = ClientReports()
    push(store, "a", member("g", "m", Point("sum", 2.0, True), Point("gauge", 1.0, False)))
    push(store, "a", member("g", "m", Point("sum", 3.0, True)))
    report = store.get("a", 0)
    assert report is not None
    assert (report.series, report.pushes) == ({"sum": 5.0}, 2)


def test_a_client_is_found_by_its_member_id_until_its_lifetime_is_over() -> None:
    store = ClientReports()
    push(store, "a", member("g", "m"))
    found = store.of_member("g", "m", KEPT_MS)
    assert found is not None
    assert found.client.client_id == "client-a"
    assert store.of_member("g", "m", KEPT_MS + 1) is None
    assert store.of_member("g", "other", 0) is None
    push(store, "b", member("g", "m"), 1)
    push(store, "a", member("g", "n"), 2)
    assert store.of_member("g", "m", 2) is store.get("b", 2)


def test_expired_reports_go_with_the_next_push() -> None:
    store = ClientReports()
    push(store, "a", member("g", "m"))
    push(store, "b", member("g", "n"), KEPT_MS + 1)
    assert [one.client.client_instance_id for one in store.all(0)] == ["b"]


NAMES = st.text("abcé", min_size=1, max_size=9)
POINTS = st.lists(st.builds(Point, NAMES, st.floats(-1e9, 1e9), st.booleans()), max_size=8)
PUSHES = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("gh"), POINTS, st.integers(0, 200_000)))


@settings(max_examples=200)
@given(pushes=PUSHES, most=st.integers(1, 4), most_bytes=st.integers(5_000, 20_000))
def test_the_bounds_hold_after_each_push(
    pushes: list[tuple[str, str, list[Point], int]], most: int, most_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reports, "MAX_CLIENTS", most)
        patch.setattr(reports, "MAX_BYTES", most_bytes)
        store, now_ms = ClientReports(), 0
        for name, group_id, points, later_ms in pushes:
            now_ms += later_ms
            push(store, name, member(group_id, name, *points), now_ms)
            kept = [*store.all(0)]
            assert len(kept) <= most
            assert store.bytes == sum(one.bytes for one in kept) <= most_bytes
            assert all(one.expires_ms >= now_ms for one in kept)
            assert {one.client.client_instance_id for one in kept} >= {
                found.client.client_instance_id
                for group in "gh"
                for who in "abcdef"
                if (found := store.of_member(group, who, 0)) is not None
            }


def test_the_memory_of_a_hundred_clients_with_two_hundred_series_is_bounded() -> None:
    name = "metric_of_a_java_consumer_with_a_name_of_usual_length_"
    data = [
        decode(0, of_member("group", f"m{client}", **{f"{name}{at}": 1.5 for at in range(200)}), 1 << 20)
        for client in range(2)
    ]
    store = ClientReports()
    tracemalloc.start()
    try:
        for client in range(100):
            # new texts each time, as each push has texts of its own
            points = [Point("".join([*point.name]), point.value, point.is_delta) for point in data[client % 2].points]
            push(store, f"client {client}", member("group", f"m{client}", *points))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len([*store.all(0)]) == 100
    assert taken <= store.bytes <= 32 << 20


def test_a_series_takes_no_more_than_is_counted() -> None:
    report = Report()
    report.client = facts("a")
    report.take(Pushed({}, [Point(f"metric {at}", float(at), False) for at in range(1_000)], False))
    assert sys.getsizeof(report.series) + sum(map(sys.getsizeof, report.series)) + 24_000 <= report.bytes
