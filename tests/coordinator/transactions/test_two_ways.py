"""The server's own question for partitions has the same answers and records as the request of clients."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked
from tests.coordinator.transactions.harness import TransactionHarness

topics = st.dictionaries(st.sampled_from("tuv"), st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1)
steps = st.tuples(
    st.sampled_from(["x", "x", "x", "", "unknown"]), st.integers(1_001, 1_002), st.integers(0, 1), st.booleans(), topics
)


def through_the_other(
    harness: TransactionHarness, step: tuple[str, int, int, bool, dict[str, list[int]]]
) -> dict[tuple[str, int], int]:
    transactional_id, producer_id, epoch, verify, asked = step
    answer = harness.ask(PartitionsAsked(transactional_id, producer_id, epoch, verify, asked), 2)
    assert isinstance(answer, PartitionErrors)
    errors = dict.fromkeys(answer.asked.all_with(0), 0)
    assert all(answer.errors.values())
    return errors | dict(answer.errors)


@given(st.lists(steps, max_size=5), st.booleans())
def test_the_servers_own_partition_request_decides_as_the_clients(
    asked: list[tuple[str, int, int, bool, dict[str, list[int]]]], ends: bool
) -> None:
    one, other = TransactionHarness(), TransactionHarness()
    for harness in (one, other):
        harness.init()
    for number, step in enumerate(asked):
        transactional_id, producer_id, epoch, verify, parts = step
        errors = one.add((producer_id, epoch), parts, transactional_id=transactional_id, verify=verify, version=2)
        found = through_the_other(other, step)
        assert found == (errors if isinstance(errors, dict) else dict.fromkeys(found, errors))
        if ends and number == 2:
            one.end((1_001, 0))
            other.end((1_001, 0))
    assert one.records == other.records
    assert one.events == other.events
