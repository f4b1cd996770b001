"""Figures of a share partition: records that are held, retried, and the first open one."""

from __future__ import annotations

import pytest

from muster.coordinator.share.figures import Figures, figures, held, rows_of
from muster.coordinator.share.in_flight import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, Row
from tests.coordinator.api.share.serving import Serving, acquired

ACCEPT, RELEASE = 1, 2
T = ("t", 0)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], Figures(0, 0, 10)),
        ([Row(5, 12, ACKNOWLEDGED, 1)], Figures(0, 0, 13)),
        ([Row(10, 11, ACKNOWLEDGED, 1), Row(12, 13, ARCHIVED, 1), Row(14, 15, ACQUIRED, 1)], Figures(2, 0, 14)),
        ([Row(10, 11, ACKNOWLEDGED, 1), Row(13, 14, ARCHIVED, 1)], Figures(0, 0, 12)),
        ([Row(1, 8, AVAILABLE, 1), Row(9, 11, AVAILABLE, 1), Row(12, 12, ACQUIRED, 2)], Figures(1, 3, 10)),
        ([Row(10, 10, AVAILABLE, 0), Row(11, 12, ARCHIVING, 5)], Figures(0, 0, 10)),
    ],
)
def test_figures_follow_from_the_rows(rows: list[Row], expected: Figures) -> None:
    assert figures(10, rows) == expected


def test_a_change_that_is_not_durable_does_not_count() -> None:
    serving = Serving()
    serving.node.job_queue.run(serving.node.topics.ensuring("t", 1), lambda _: None, serving.node.persister)
    serving.append("t", 10)
    serving.fetch("a", 0, T)
    assert acquired(serving.fetch("a", 1, T)) == [(0, 9, 1)] or serving.share().core.in_flight == 10
    serving.persister.holds = True
    serving.send_acks("a", 2, {T: [(0, 4, [ACCEPT]), (5, 6, [RELEASE])]})
    core = serving.share().core
    assert figures(core.start_offset, rows_of(core)) == Figures(10, 0, 0)
    assert held(core) == {"a": 3}
    serving.persister.release()
    assert figures(core.start_offset, rows_of(core)) == Figures(3, 2, 5)
