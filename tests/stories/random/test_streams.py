"""How outcomes of histories of streams groups are compared."""

from __future__ import annotations

from pathlib import Path

from tests.stories.random.streams import COUNTS, LEFT_OUT, history, plain

CONFORMANCE = Path(__file__).parents[3] / "docs" / "conformance.md"
SHOWN = "    X <- streams-describe ok epoch=7 topology=1(0:o>w 1:<w={0}%g-store-changelog={0}(a:b)) members=[F epoch=7]"


def test_partition_counts_are_not_compared_after_a_refused_heartbeat() -> None:
    for error in ("UNKNOWN_SERVER_ERROR", 'INVALID_REQUEST message="Task 7"'):
        lines = [f"    F <- streams-heartbeat {error}", SHOWN.format(2), "    F <- streams-heartbeat ok epoch=-1"]
        assert plain([*lines, SHOWN.format(2)]) == [lines[0], SHOWN.format("*"), lines[2], SHOWN.format("*")]
        later = [SHOWN.format(2), "    F <- streams-heartbeat ok epoch=8", SHOWN.format(2)]
        assert plain([*lines, *later])[-2:] == later[-2:]


def test_the_accepted_difference_is_a_paragraph_of_the_conformance_page() -> None:
    assert f"* **{COUNTS}**" in CONFORMANCE.read_text()


def test_refusals_by_which_kafka_assigns_tasks_are_left_out_while_topics_change() -> None:
    texts = [history(seed).source for seed in range(20)]
    for text in texts:
        is_unsure = "own-topics" in text or "initial.rebalance.delay" in text
        assert not (is_unsure and any(one in text for one in LEFT_OUT))
    assert any(one in text for text in texts for one in LEFT_OUT)
