"""How each client's worker is started. Code that must be compiled is compiled once, into a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.servers import KAFKA_SCRIPTS, kafka_jars

WORKERS = Path(__file__).parent / "workers"
PYTHON = {"aiokafka": "aio", "confluent-kafka": "confluent", "kafka-python": "kafka_python"}
Command = Callable[[Path], list[str]]


def _python(module: str) -> Command:
    return lambda _: [sys.executable, "-m", f"tests.exactly_once.workers.{module}"]


def _java(built: Path) -> list[str]:
    jars = kafka_jars()
    return _compiled(built / "java", f"{jars}/*")


def old_jars(built: Path) -> Path:
    """The jars of a client without `transaction.version` 2."""
    return _maven("old-clients-pom.xml", built / "old-java-jars")


def _old_java(built: Path) -> list[str]:
    return _compiled(built / "old-java", f"{old_jars(built)}/*")


def _spring(built: Path) -> list[str]:
    return _compiled(built / "spring", f"{_maven('spring-pom.xml', built / 'spring-jars')}/*", "SpringWorker")


def _maven(pom: str, jars: Path) -> Path:
    if not jars.exists():
        jars.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["mvn", "-q", "-B", "-f", WORKERS / pom, "-DincludeScope=runtime", f"-DoutputDirectory={jars}.new",
             "dependency:copy-dependencies"],
            check=True, stdout=sys.stderr,
        )  # fmt: skip
        Path(f"{jars}.new").rename(jars)
    return jars


def _compiled(classes: Path, class_path: str, name: str = "Worker") -> list[str]:
    if not (classes / f"{name}.class").exists():
        subprocess.run(["javac", "-cp", class_path, "-d", classes, WORKERS / f"{name}.java"], check=True)
    quiet = f"-Dlog4j2.configurationFile={KAFKA_SCRIPTS / 'log4j2-quiet.xml'}"
    return [
        "java",
        "-Xmx128M",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        quiet,
        "-cp",
        f"{classes}:{class_path}",
        name,
    ]


def _go(built: Path) -> list[str]:
    program = built / "franz-worker"
    if not program.exists():
        subprocess.run(["go", "build", "-o", program, "."], cwd=WORKERS / "franz", check=True, stdout=sys.stderr)
    return [str(program)]


def _output(command: list[Path]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


COMMANDS: dict[str, Command] = {
    **{name: _python(module) for name, module in PYTHON.items()},
    "java": _java,
    "java-3.7": _old_java,
    "spring": _spring,
    "franz-go": _go,
}
"""The commands by client name; each takes the folder for what it builds."""
NEEDS = {"java": ["java", "mvn"], "java-3.7": ["java", "mvn"], "spring": ["java", "mvn"], "franz-go": ["go"]}


def available(client: str) -> bool:
    """Whether this machine has the client's tools."""
    return all(shutil.which(tool) for tool in NEEDS.get(client, []))
