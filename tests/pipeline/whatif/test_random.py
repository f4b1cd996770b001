"""Random histories: their replay reproduces the generations."""

from __future__ import annotations

import pytest

from muster.pipeline.whatif import from_events, from_log
from muster.pipeline.whatif.compare import compare
from muster.pipeline.whatif.settings import DEFAULT_GRID
from tests.pipeline.whatif.reality import GROUP, random_reality

SEEDS = 60
EVENTS_SHARE, LOG_SHARE = 0.99, 0.95
WHOLE_SHARE = 0.9
"""The share of histories whose every generation is reproduced."""


def test_random_histories_are_reproduced() -> None:
    """The rest is what no log shows: a member that never took what it was given, because it stood still."""
    generations = reproduced = of_log = reproduced_of_log = 0
    for seed in range(SEEDS):
        world = random_reality(seed)
        lines = compare(from_events.history_of(GROUP, world.events), []).fidelity
        ends = {value["member"]["member"]: "expired" for value in world.events if value["kind"] == "member_expired"}
        logged = compare(from_log.history_of(GROUP, world.records, ends), []).fidelity
        generations, reproduced = generations + lines.generations, reproduced + lines.reproduced
        of_log, reproduced_of_log = of_log + logged.generations, reproduced_of_log + logged.reproduced
    assert generations > 300
    assert of_log > 300
    assert reproduced >= EVENTS_SHARE * generations
    assert reproduced_of_log >= LOG_SHARE * of_log


@pytest.mark.parametrize("seed", range(8))
def test_every_setting_can_be_played_on_anything(seed: int) -> None:
    found = compare(from_events.history_of(GROUP, random_reality(seed).events), DEFAULT_GRID)
    assert not found.fidelity.withheld
    assert [one.why for one in found.whatif] == [None] * len(DEFAULT_GRID)


def test_a_reproduced_history_has_the_actual_costs() -> None:
    """Checks histories whose every generation was reproduced. The others are counted; they are seldom."""
    compared = 0
    for seed in range(SEEDS):
        found = compare(from_events.history_of(GROUP, random_reality(seed).events), DEFAULT_GRID[:1])
        if found.fidelity.share != 1.0:
            assert found.fidelity.reproduced < found.fidelity.generations
            assert found.fidelity.withheld == (not found.whatif)
            continue
        compared += 1
        (played,) = found.whatif
        assert played.figures is not None
        assert played.figures.rebalances == found.actual.rebalances, seed
        assert played.figures.moved_partitions == found.actual.moved_partitions, seed
    assert compared >= WHOLE_SHARE * SEEDS
