"""All stories on three brokers, in one process and in three over a database. The answers are those of one Kafka
broker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.stories_on import cluster, differences, nodes
from tests.e2e.test_stories import STORIES

pytestmark = pytest.mark.timeout(900)
ON_BROKERS = [story for story in STORIES if "one-broker" not in story.tags]


def test_stories_on_nodes_of_one_process_equal_kafkas(tmp_path: Path) -> None:
    assert differences(ON_BROKERS, nodes(tmp_path)) == []


def test_stories_on_nodes_over_a_database_equal_kafkas(tmp_path: Path, postgres: str) -> None:
    assert differences(ON_BROKERS, cluster(tmp_path, postgres)) == []
