"""Of each recorded log, all sources and both engines give the same tables: the data directory and a live server with
its records, and Spark and this process. A client of the live server does not see all facts. If it does,
`muster groups explain` gives the same answers, too.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.cli import main
from muster.pipeline.explain.inputs import log_of_path
from muster.pipeline.frames.spark import planned_once
from muster.pipeline.stage import Source, stage
from muster.pipeline.tables.build import build
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.conftest import spark
from tests.pipeline.scores import KEPT, unpacked
from tests.pipeline.served import Rows, as_clients_see, log_of_cluster, rows_of, served, tables_of

__all__ = ["spark"]
LOGS = sorted(KEPT.glob("*.tar.xz"))
BY_SPARK_TOO = ("consumers", "drawn-6", "one")
"""The logs that Spark also reads from the live server."""
EXPLAINED = 2
"""Of each log, this many groups are explained by the command."""

pytestmark = pytest.mark.timeout(1_800)


def of_spark(session: SparkSession, source: Source, folder: Path) -> Rows:
    with planned_once(session):
        made = build(stage(session, source, str(folder)).inputs)
        found = {name: rows_of(rows.toArrow().cast(TABLES[name])) for name, rows in made.items()}
    session.catalog.clearCache()
    return found


@pytest.mark.parametrize("archive", LOGS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_all_sources_and_both_engines_give_the_same_tables(
    archive: Path, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, _ = unpacked(archive, tmp_path)
    here = tables_of(log_of_path(str(log)))
    groups = [json.loads(row)["group"] for row in here["verdicts"]][:EXPLAINED]
    found = {"Spark": of_spark(spark, Source(path=str(log)), tmp_path / "of-path")}
    with served(log, tmp_path / "server") as bootstrap:
        client = {"bootstrap.servers": bootstrap}
        cluster = log_of_cluster(client)
        found["the live server"] = tables_of(cluster)
        clients_see = tables_of(as_clients_see(log_of_path(str(log)), cluster))
        if archive.name.removesuffix(".tar.xz") in BY_SPARK_TOO:
            found["the live server by Spark"] = of_spark(spark, Source(kafka=client), tmp_path / "of-cluster")
        for group in groups if clients_see == here else ():
            explained = [
                _explained(capsys, group, *where) for where in (("--log", str(log)), ("--bootstrap-server", bootstrap))
            ]
            assert explained[0] == explained[1], group
    different = {
        f"{name} of {source}": (
            sorted(set(known[name]) - set(rows))[:2],
            sorted(set(rows) - set(known[name]))[:2],
        )
        for source, of in found.items()
        for known in (clients_see if source.startswith("the live server") else here,)
        for name, rows in of.items()
        if rows != known[name]
    }
    assert different == {}, json.dumps(different, indent=1)


def _explained(capsys: pytest.CaptureFixture[str], group: str, *where: str) -> object:
    assert main(["groups", "explain", group, "--json", "--since", "4000d", *where]) == 0
    answer = json.loads(capsys.readouterr().out)
    return {name: answer[name] for name in ("level", "verdict", "claims", "rebalances", "advice", "unadvised")}
