"""A broker is compared with the release whose versions are most similar."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from muster.conform.nearest import HIGHEST, KNOWN, nearest
from muster.conform.player.releases import RELEASES, Release, name_of

BROKERS = json.loads(files("muster.testcontrol.faults").joinpath("releases.json").read_text(encoding="utf-8"))
"""The versions that a broker of each release offers, from the jars of the releases."""


def versions_of(release: Release) -> dict[int, int]:
    return {int(key): high for key, high in BROKERS[name_of(release)]["versions"].items()}


@pytest.mark.parametrize("release", RELEASES, ids=name_of)
def test_a_broker_of_a_release_is_compared_with_that_release(release: Release) -> None:
    assert nearest(versions_of(release)) == release


def test_the_table_has_the_versions_of_the_releases() -> None:
    for place, release in enumerate(KNOWN):
        offered = versions_of(release)
        assert {key: offered.get(key, -1) for key in HIGHEST} == {key: row[place] for key, row in HIGHEST.items()}


def test_a_broker_that_offers_few_apis_is_compared_by_those() -> None:
    assert nearest({0: 13, 8: 9}) == (4, 1)
    assert nearest({}) == (4, 4)
