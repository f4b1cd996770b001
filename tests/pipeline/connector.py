"""Spark's Kafka connector: its jars, from the cache or through Maven where it is there, and reads through it."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from muster.pipeline.sources.frame import CONNECTOR_SPEED

POM = Path(__file__).parents[1] / "kafka" / "spark-pom.xml"
JARS = Path(os.environ.get("SPARK_KAFKA_JARS", Path.home() / ".cache" / "muster" / "spark-kafka-4.2.0"))
COUNT = 4
FETCH_TIMEOUT_S = 60


@cache
def jars() -> tuple[Path, ...]:
    """All of them, or none when they cannot be had; `why_not` tells why."""
    return () if why_not() else tuple(sorted(JARS.glob("*.jar")))


@cache
def why_not() -> str:
    """Why there are no jars; empty when they are there."""
    if len(list(JARS.glob("*.jar"))) == COUNT:
        return ""
    mvn = shutil.which("mvn")
    if mvn is None:
        return f"no jars of Spark's Kafka connector in {JARS}, and no mvn to fetch them"
    JARS.parent.mkdir(parents=True, exist_ok=True)
    fetched = JARS.with_name(f"{JARS.name}.{os.getpid()}")
    command = [mvn, "-q", "-B", "-f", str(POM), f"-DoutputDirectory={fetched}", "dependency:copy-dependencies"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
        fetched.rename(JARS)
    except subprocess.TimeoutExpired:
        return f"the jars of Spark's Kafka connector did not come within {FETCH_TIMEOUT_S} s"
    except (subprocess.CalledProcessError, OSError) as error:
        return f"the jars of Spark's Kafka connector cannot be fetched: {getattr(error, 'stdout', '') or error}"[:500]
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return ""


def through_connector(reading: Any, bootstrap: str, **options: str) -> Any:
    """The offsets topic by the recipe of docs/pipeline.md; `reading` is spark.read or spark.readStream."""
    how = {"kafka.bootstrap.servers": bootstrap, "subscribe": "__consumer_offsets", **CONNECTOR_SPEED, **options}
    return reading.format("kafka").options(**{name: value for name, value in how.items() if value}).load()


def places(decoded: Any) -> list[tuple[int, int]]:
    """Of all rows but those of groups that the connector itself joins to find its offsets."""
    others = decoded.where("NOT startswith(group, 'spark-kafka-')").select("log_partition", "log_offset")
    return sorted((row.log_partition, row.log_offset) for row in others.collect())
