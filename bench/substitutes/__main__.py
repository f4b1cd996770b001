"""`python -m bench.substitutes`: Muster and what else tests of consumers run in place of Kafka, one after the other.

For each: the time until a consumer of a group has its first record, and processor time and memory meanwhile. Also which
families of APIs it claims to serve, and what a stock client can do with it. Needs Go (kfake), Java and Maven (Kafka,
embedded or not); missing ones are left out. Prints a table in Markdown.
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
    """A process and all its descendants."""
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
        if server.inner_s is not None:  # the process itself is the test's
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
    """Each probe with an empty text or the reason of its failure, and the families of APIs."""
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
