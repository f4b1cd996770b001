"""A compacted log on a disk that fails, in a process that dies between any two changes of its files."""

from __future__ import annotations

import pytest

from muster.coordinator.log.cleaning import record_filter
from tests.coordinator.log.storms import Lost, Storm


@pytest.mark.parametrize("block", range(10))
def test_no_latest_value_is_lost_by_compaction_on_a_failing_disk(block: int) -> None:
    compactions = 0
    for seed in range(block * 60, block * 60 + 60):
        storm = Storm(seed)
        storm.run()
        compactions += storm.compactions
    assert compactions > 60


def storms(count: int) -> None:
    for seed in range(count):
        Storm(seed).run()


def test_the_test_of_compaction_faults_notices_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_filter.OffsetMap, "latest", lambda found: set(list(found.offsets.values())[1:]))
    with pytest.raises(Lost):
        storms(60)
