"""A data directory and a live cluster with the same records give the same tables. tests/conformance reads all logs."""

from __future__ import annotations

from pathlib import Path

from muster.pipeline.explain.inputs import log_of_path
from tests.pipeline.scores import KEPT, unpacked
from tests.pipeline.served import log_of_cluster, of_both, served, tables_of


def test_a_live_cluster_gives_the_tables_of_its_data_directory(tmp_path: Path) -> None:
    log, _ = unpacked(KEPT / "drawn-4.tar.xz", tmp_path)
    of_path = tables_of(log_of_path(str(log)))
    assert {"stalls", "verdicts", "rebalances"} <= {name for name, rows in of_path.items() if rows}
    with served(log, tmp_path / "server") as bootstrap:
        of_cluster = tables_of(log_of_cluster({"bootstrap.servers": bootstrap}))
    for name, rows in of_path.items():
        assert of_both(name, of_cluster[name]) == of_both(name, rows), name
