"""A data directory and a live cluster with the same records and ends give the same tables. tests/conformance reads all
logs.
"""

from __future__ import annotations

from pathlib import Path

from muster.pipeline.explain.inputs import log_of_path
from tests.pipeline.scores import KEPT, unpacked
from tests.pipeline.served import as_clients_see, log_of_cluster, reached, served, tables_of


def test_a_live_cluster_gives_the_tables_of_its_data_directory(tmp_path: Path) -> None:
    log, _ = unpacked(KEPT / "drawn-4.tar.xz", tmp_path)
    with served(log, tmp_path / "server") as bootstrap:
        cluster = log_of_cluster({"bootstrap.servers": bootstrap})
        of_cluster = tables_of(cluster)
        of_path = tables_of(as_clients_see(log_of_path(str(log)), cluster))
        ends = [reached(one) for one in (log_of_path(str(log)), cluster)]
    assert {"stalls", "verdicts", "rebalances"} <= {name for name, rows in of_path.items() if rows}
    for name, rows in of_path.items():
        assert of_cluster[name] == rows, name
    # a live cluster does not show that records came late, in one batch
    assert ends[0].keys() == ends[1].keys()
    assert all(end <= ends[1][place] for place, end in ends[0].items())
    assert ends[0] != ends[1]
