from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.replica_placer import replicas
from muster.protocol.errors import ErrorCode

RACKS = st.dictionaries(st.integers(0, 9), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=8)


@given(RACKS, st.integers(1, 40), st.integers(1, 4), st.integers(0, 99))
def test_replicas_are_on_different_brokers_and_leaders_are_spread(
    racks: dict[int, str | None], partitions: int, factor: int, seed: int
) -> None:
    factor = min(factor, len(racks))
    places = replicas(racks, (), partitions, factor, random.Random(seed).randrange)
    assert len(places) == partitions
    for place in places:
        assert len(set(place)) == len(place) == factor
        assert set(place) <= racks.keys()
        # as many racks as possible
        assert len({racks[one] for one in place}) == min(factor, len(set(racks.values())))


@given(st.integers(1, 7), st.integers(1, 60), st.integers(0, 99))
def test_brokers_without_racks_lead_equally_many_partitions(brokers: int, partitions: int, seed: int) -> None:
    places = replicas(dict.fromkeys(range(brokers)), (), partitions, 1, random.Random(seed).randrange)
    led = Counter(place[0] for place in places)
    assert max(led.values()) - min(led[one] for one in range(brokers)) <= 1


def test_a_fenced_broker_leads_nothing_and_is_used_only_if_needed() -> None:
    racks: dict[int, str | None] = {1: None, 2: None, 3: None}
    for seed in range(20):
        draw = random.Random(seed).randrange
        assert {place[0] for place in replicas(racks, (2,), 9, 1, draw)} == {1, 3}
        for place in replicas(racks, (2,), 9, 3, draw):
            assert place[2] == 2


@pytest.mark.parametrize(("fenced", "factor", "why"), [((), 3, "only 2 broker"), ((1, 2), 1, "currently fenced")])
def test_replicas_that_cannot_be_placed_are_refused(fenced: tuple[int, ...], factor: int, why: str) -> None:
    with pytest.raises(ApiError, match=why) as caught:
        replicas({1: None, 2: None}, fenced, 1, factor, random.Random(1).randrange)
    assert caught.value.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
