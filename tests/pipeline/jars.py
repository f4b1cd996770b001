"""Jars beside Spark's own, from the cache or from Maven if it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

_POMS = Path(__file__).parents[1] / "kafka"
_CACHE = Path.home() / ".cache" / "muster"
FETCH_TIMEOUT_S = 60


class Jars(NamedTuple):
    """Jars that belong together."""

    what: str
    pom: Path
    folder: Path
    parts: int

    def all(self) -> tuple[Path, ...]:
        """All jars, or none if they cannot be downloaded; `why_not` says why."""
        return () if self.why_not() else tuple(sorted(self.folder.glob("*.jar")))

    def why_not(self) -> str:
        """Why there are no jars; empty when they exist."""
        return _fetched(self)


CONNECTOR = Jars(
    "Spark's Kafka connector",
    _POMS / "spark-pom.xml",
    Path(os.environ.get("SPARK_KAFKA_JARS", _CACHE / "spark-kafka-4.2.0")),
    4,
)
DELTA = Jars("Delta Lake", _POMS / "delta-pom.xml", _CACHE / "delta-4.4.0", 5)


@cache
def _fetched(jars: Jars) -> str:
    folder = jars.folder
    if _are_there(jars):
        return ""
    mvn = shutil.which("mvn")
    if mvn is None:
        return f"no jars of {jars.what} in {folder}, and no mvn to fetch them"
    folder.parent.mkdir(parents=True, exist_ok=True)
    fetched = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [mvn, "-q", "-B", "-f", str(jars.pom), f"-DoutputDirectory={fetched}", "dependency:copy-dependencies"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
        fetched.rename(folder)
    except subprocess.TimeoutExpired:
        return f"the jars of {jars.what} did not come within {FETCH_TIMEOUT_S} s"
    except (subprocess.CalledProcessError, OSError) as error:
        if _are_there(jars):  # another process fetched them at the same time
            return ""
        return f"the jars of {jars.what} cannot be fetched: {getattr(error, 'stdout', '') or error}"[:500]
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return ""


def _are_there(jars: Jars) -> bool:
    return len(list(jars.folder.glob("*.jar"))) == jars.parts
