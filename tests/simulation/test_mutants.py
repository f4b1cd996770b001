"""Each checker can fail: it finds a core that breaks its rule, within a few seeds."""

from __future__ import annotations

import pytest

from tests.simulation.checkers import checkers
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import GROUPS

SEEDS = range(200)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_of_classic_groups_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checker, break_core = MUTANTS[name]
    break_core(monkeypatch)
    failure = GROUPS.first_failure(SEEDS, checker)
    assert failure is not None
    assert f"seed {failure.seed}," in failure.text


def test_each_checker_has_a_mutant() -> None:
    found = {checker for checker, _ in MUTANTS.values()}
    assert {type(one).__name__ for one in checkers()} <= found
