"""Some stories on three brokers, in one process and in three over a database; `make conformance-cluster` plays all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.e2e.stories_on import cluster, differences, nodes, quick

pytestmark = [
    pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="nodes of Muster's own"),
    pytest.mark.timeout(300),
]


def test_stories_give_the_same_answers_on_three_nodes_of_one_process(tmp_path: Path) -> None:
    assert differences(quick(every=12), nodes(tmp_path)) == []


def test_stories_give_the_same_answers_on_three_nodes_over_a_database(tmp_path: Path, postgres: str) -> None:
    assert differences(quick(every=24), cluster(tmp_path, postgres)) == []
