"""The brokers of the matrix: how each is started on a free port of this machine, and what it is."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from muster.conform.settings import SETS
from tests.support.postgres import running_postgres
from tools import brokers
from tools.brokers import ROOT, free_port, process

HERE = Path(__file__).parent
KAFKAS = ("4.0", "4.1", "4.2", "4.3", "4.4")
"""The releases of the matrix."""
KFAKE_SETTINGS = ("group.min.session.timeout.ms",)
"""Settings of the stories that kfake knows."""


@dataclass(frozen=True)
class Target:
    """A broker of the matrix."""

    name: str
    """As the page has it; without blanks."""
    start: Callable[[Path], contextlib.AbstractContextManager[str]]
    """Start it with a directory of its own. The value is its address."""
    version: Callable[[], str]
    """The version, as its package or program says."""


def settings() -> list[str]:
    """The settings with which nearly all stories are played, as `name=value`."""
    return [f"{name}={value}" for name, value in SETS["main"].items()]


def kafka(version: str) -> Target:
    """Apache Kafka of one release, as a single node."""

    def start(folder: Path) -> contextlib.AbstractContextManager[str]:
        return brokers.kafka(version, folder, SETS["main"])

    return Target(f"Kafka-{version}", start, lambda: version)


def muster(name: str, *options: str) -> Target:
    """Muster with these options of `muster serve`."""

    def start(folder: Path) -> contextlib.AbstractContextManager[str]:
        port = free_port(6)
        overrides = [word for setting in settings() for word in ("--override", setting)]
        listen = ["--listen", f"127.0.0.1:{port}", "--data-dir", str(folder / "data")]
        command = [sys.executable, "-m", "muster.cli", "serve", *listen, *options, *overrides]
        return process(command, port, folder / "log")

    return Target(name, start, lambda: said(sys.executable, "-m", "muster.cli", "--version").removeprefix("muster "))


def kfake() -> Target:
    """The fake of franz-go, built from `kfake/`."""

    def start(folder: Path) -> contextlib.AbstractContextManager[str]:
        port, program = free_port(), folder / "kfake"
        subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE / "kfake", check=True)
        known = [one for one in settings() if one.partition("=")[0] in KFAKE_SETTINGS]
        return process([str(program), str(port), *known], port, folder / "log")

    return Target("kfake", start, lambda: said("go", "list", "-m", "-f", "{{.Version}}", KFAKE, folder=HERE / "kfake"))


KFAKE = "github.com/twmb/franz-go/pkg/kfake"


def librdkafka() -> Target:
    """The mock cluster of librdkafka, as it is in the Python client. It chooses its port."""

    @contextlib.contextmanager
    def start(_: Path) -> Iterator[str]:
        started = subprocess.Popen(
            [sys.executable, str(HERE / "mock_cluster.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert started.stdout is not None
            yield started.stdout.readline().strip()
        finally:
            started.communicate("")

    return Target("librdkafka-mock", start, lambda: said(sys.executable, str(HERE / "mock_cluster.py"), "--version"))


def tansu(program: str) -> Target:
    """Tansu with its storage in memory."""

    def start(folder: Path) -> contextlib.AbstractContextManager[str]:
        port = free_port()
        url = f"tcp://127.0.0.1:{port}"
        words = ["--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/"]
        return process([program, "broker", *words], port, folder / "log")

    return Target("tansu", start, lambda: said(program, "--version").removeprefix("tansu "))


def said(*command: str, folder: Path = ROOT) -> str:
    """What a program prints."""
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def cluster() -> Target:
    """A node of Muster over a PostgreSQL of its own."""

    @contextlib.contextmanager
    def start(folder: Path) -> Iterator[str]:
        with running_postgres() as url:
            said(sys.executable, "-m", "muster.cli", "cluster", "init", url)
            with muster("", "--cluster", url).start(folder) as address:
                yield address

    return replace(muster("Muster-cluster"), start=start)


def targets(tansu_program: str | None) -> list[Target]:
    """All brokers of the matrix."""
    found = [kafka(brokers.PATCHES[release]) for release in KAFKAS]
    found += [muster("Muster"), muster("Muster-3-nodes", "--nodes", "3")]
    found += [cluster(), kfake(), librdkafka()]
    if tansu_program:
        found.append(tansu(tansu_program))
    return found


@contextlib.contextmanager
def running(target: Target) -> Iterator[str]:
    """The target, with a directory of its own: its address."""
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder, target.start(Path(folder)) as address:
        yield address
