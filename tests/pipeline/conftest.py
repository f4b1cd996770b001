"""One Spark session serves all tests of the pipeline. A test may take 20 minutes, for busy machines.

A test that is stopped at its timeout leaves its answer in the connection to Spark, and breaks all later tests.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.frames import in_this_process
from muster.pipeline.session import open_session
from tests.pipeline.engines import TABLES_ON, Engine
from tests.pipeline.jars import CONNECTOR
from tests.pipeline.live import Live
from tests.support.servers import QUICK, MusterServer

TIMEOUT_S = 1_200
LITTLE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for little work: Spark writes no code for each plan, and spreads nothing over tasks."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}/"
    for item in items:
        if f"{item.path}".startswith(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores, with Spark's Kafka connector if its jars are installed."""
    settings = {
        **LITTLE,
        "spark.driver.memory": "640m",
        # to compile well costs more than it saves: half the CPU time. Java then reserves space for a fifth of the code,
        # which is too little. With space for all classes and for young objects the collector visits fewer objects
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
        "-XX:MetaspaceSize=256m -Xmn160m -XX:+UnlockExperimentalVMOptions -XX:SymbolTableSize=524288",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    }
    if found := CONNECTOR.all():
        settings["spark.jars"] = ",".join(map(str, found))
    session = open_session("local[2]", settings)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """What makes the tables of a module: this process, unless `MUSTER_TABLES_ON` is `spark`."""
    if os.environ.get(TABLES_ON) == "spark":
        yield Engine(request.getfixturevalue("spark"))
        return
    with in_this_process():
        yield Engine()


@pytest.fixture(scope="module", autouse=True)
def _nothing_kept() -> Iterator[None]:
    """Drop the plans and tables that Spark cached for a module at its end: Spark compares each later query with all of
    them.
    """
    yield
    session = SparkSession.getActiveSession()
    if session is not None:
        session.catalog.clearCache()
        gc.collect()


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A running Muster with some groups. Tests may commit more offsets."""
    server = MusterServer(tmp_path_factory.mktemp("live"), QUICK)
    server.start()
    try:
        found = Live({"bootstrap.servers": server.bootstrap}, str(server.workdir / "data"))
        found.fill(transactions=True)
        yield found
    finally:
        server.stop()
