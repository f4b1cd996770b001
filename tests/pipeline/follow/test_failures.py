from __future__ import annotations

from muster.pipeline.follow.run import _may_pass, _sentence
from muster.pipeline.sources.cluster import ClusterError

TOLD = """[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: Traceback (most recent call last):
  File "cluster.py", line 1, in bounds
muster.pipeline.sources.cluster.ClusterError: one:9092: Failed to query: Local: Timed out
 SQLSTATE: XXKST"""


def test_a_cluster_that_is_away_may_come_back() -> None:
    assert _may_pass(ClusterError("one:9092: Local: Timed out"))
    assert _may_pass(RuntimeError(TOLD))
    assert _sentence(RuntimeError(TOLD)) == "one:9092: Failed to query: Local: Timed out"


def test_what_trying_again_does_not_mend() -> None:
    assert not _may_pass(ClusterError("the topic was created anew or cut; begin with a new checkpoint"))
    assert not _may_pass(RuntimeError("[STREAM_FAILED] no space left on device\nat java.lang"))
    assert _sentence(RuntimeError("[STREAM_FAILED] no space left on device\nat java.lang")) == (
        "[STREAM_FAILED] no space left on device"
    )
