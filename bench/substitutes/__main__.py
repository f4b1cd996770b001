"""`python -m bench.substitutes` measures Muster and other servers that tests run in place of Kafka.

For each server, it measures wall time, CPU time and memory until a consumer has its first record. It also finds which
families of APIs a server claims to serve, and what a usual client can do. Servers need Go (kfake), Java (Kafka) and
Maven (embedded Kafka). A server whose tools are missing is left out. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.substitutes import probes
from bench.substitutes.servers import SERVERS, TESTCONTAINERS, Embedded, Kafka, Kfake, Substitute
from tests.support.servers import kafka_available

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """The process ids of a process and of all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in family(int(child)))]


def cpu_s(pid: int) -> float:
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in family(pid)]
    return sum(int(row[index]) for row in fields for index in (11, 12, 13, 14)) / TICKS


def memory_bytes(pid: int) -> int:
    return sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) * PAGE for one in family(pid))


def one_round(kind: type[Substitute] | type[Kafka], place: Path) -> dict[str, float]:
    """Start the server, let a group have its first record, and stop the server."""
    server = kind(place, TESTCONTAINERS if kind is Kafka else {})
    began = time.monotonic()
    server.start()
    try:
        ready_s = time.monotonic() - began
        probes.consume(server.bootstrap, "first", "first")
        first_s = time.monotonic() - began
        if server.inner_s is not None:  # the server runs in the process of the test
            first_s, ready_s = first_s - ready_s + server.inner_s, server.inner_s
        memory = memory_bytes(server.pid) - server.before_bytes
        return {
            "ready": ready_s,
            "first": first_s,
            "cpu": cpu_s(server.pid) - server.before_cpu_s,
            "memory": memory / 2**20,
        }
    finally:
        server.kill()


def what_works(kind: type[Substitute] | type[Kafka], place: Path) -> dict[str, str]:
    """The result of each probe (an empty text, or why it failed), and the served families of APIs."""
    server = kind(place, TESTCONTAINERS if kind is Kafka else {})
    server.start()
    try:
        found = {name: probes.tried(probe, server.bootstrap) for name, probe in probes.PROBES.items()}
        keys = probes.api_keys(server.address)
    finally:
        server.kill()
    served = [name for name, wanted in probes.GROUP_APIS.items() if keys >= set(wanted)]
    return {**found, "APIs": f"{len(keys)}: {', '.join(served)}"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.substitutes", description=__doc__)
    parser.add_argument("--only", default="", help="only those whose name has this")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is started (default: 5)")
    options = parser.parse_args()
    kinds = [
        kind
        for kind in SERVERS
        if options.only in kind.name
        and not (kind in (Kafka, Embedded) and not kafka_available())
        and not (kind is Kfake and shutil.which("go") is None)
    ]
    print("| | ready, s | first record, s | CPU, s | memory, MB | APIs | " + " | ".join(probes.PROBES) + " |")
    print("|---|" + "---|" * (5 + len(probes.PROBES)))
    for kind in kinds:
        kind.prepare()
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
            places = [Path(folder, str(number)) for number in range(options.rounds + 1)]
            for place in places:
                place.mkdir()
            rounds = [one_round(kind, place) for place in places[:-1]]
            works = what_works(kind, places[-1])
        figures = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        cells = [kind.name, *(f"{figures[name]:.2f}" for name in ("ready", "first", "cpu")), f"{figures['memory']:.0f}"]
        cells += [works["APIs"], *(works[name] or "yes" for name in probes.PROBES)]
        print("| " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
