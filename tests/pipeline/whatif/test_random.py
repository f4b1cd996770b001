"""Random histories: their replay makes the generations that really were."""

from __future__ import annotations

import pytest

from muster.pipeline.whatif import from_events, from_log
from muster.pipeline.whatif.compare import compare
from muster.pipeline.whatif.settings import DEFAULT_GRID
from tests.pipeline.whatif.reality import GROUP, random_reality

SEEDS = 60
EVENTS_SHARE, LOG_SHARE = 0.99, 0.95


def test_random_histories_come_out_as_they_were() -> None:
    """What is missing is what no log tells: a member that never took what it was given, because it stood still."""
    generations = reproduced = of_log = reproduced_of_log = 0
    for seed in range(SEEDS):
        world = random_reality(seed)
        told = compare(from_events.history_of(GROUP, world.events), []).fidelity
        ends = {value["member"]["member"]: "expired" for value in world.events if value["kind"] == "member_expired"}
        logged = compare(from_log.history_of(GROUP, world.records, ends), []).fidelity
        generations, reproduced = generations + told.generations, reproduced + told.reproduced
        of_log, reproduced_of_log = of_log + logged.generations, reproduced_of_log + logged.reproduced
    assert generations > 300
    assert reproduced >= EVENTS_SHARE * generations
    assert reproduced_of_log >= LOG_SHARE * of_log


@pytest.mark.parametrize("seed", range(8))
def test_every_setting_can_be_played_on_anything(seed: int) -> None:
    found = compare(from_events.history_of(GROUP, random_reality(seed).events), DEFAULT_GRID)
    assert [one.why for one in found.whatif] == [None] * len(found.whatif)
    assert found.fidelity.withheld or len(found.whatif) == len(DEFAULT_GRID)


@pytest.mark.parametrize("seed", range(8))
def test_what_happened_is_what_the_replay_of_it_costs(seed: int) -> None:
    found = compare(from_events.history_of(GROUP, random_reality(seed).events), DEFAULT_GRID[:1])
    if found.fidelity.share == 1.0:
        assert found.whatif[0].figures is not None
        assert found.whatif[0].figures.rebalances == found.actual.rebalances
        assert found.whatif[0].figures.moved_partitions == found.actual.moved_partitions
