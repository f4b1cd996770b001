"""`python -m bench.requests` measures heartbeats, commits, Produce and Fetch on Muster, and on a real Apache Kafka.

Kafka needs Java. `bench.run` measures the same figures, and many others, which takes much longer.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from bench.load.frameload import FrameLoad
from bench.run import PAGE_CACHE, SETTINGS, Samples, commit_figures, note, warm_up
from bench.scenarios import Target, fetch_large, fetch_small, heartbeats, produce
from tests.support.servers import KafkaServer, MusterServer, ServerProcess, kafka_available

SCENARIOS = (lambda target: heartbeats(target, 100), produce, fetch_large, fetch_small)


def measure(
    servers: list[ServerProcess], page_cache: ServerProcess, workdir: Path, args: argparse.Namespace
) -> Samples:
    """Measure each server in turn. `page_cache`: Muster that acknowledges commits from the page cache."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    frameload, started = FrameLoad(workdir), []
    try:
        for server in [*servers, page_cache]:
            started.append(server)
            server.start()
        targets = [Target(server, frameload, args.seconds) for server in started]
        for target in targets:
            target.prepare()
        for target in targets[:-1]:
            warm_up(target, args.seconds * 5)
        for _ in range(args.rounds):
            commit_figures(targets[:-1], targets[-1], samples)
            for scenario in SCENARIOS:
                for target in targets[:-1]:
                    note(samples, target, scenario(target))
    finally:
        for server in started:
            if server.running:
                server.stop()
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.requests", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each server is measured (default: 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each load runs (default: 1)")
    parser.add_argument("--without-kafka", action="store_true", help="measure Muster alone")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        workdir = Path(folder)
        servers: list[ServerProcess] = [MusterServer(workdir / "muster", SETTINGS)]
        if kafka_available() and not args.without_kafka:
            servers.append(KafkaServer(workdir / "kafka", SETTINGS))
        page_cache = MusterServer(workdir / "page-cache", {**SETTINGS, **PAGE_CACHE})
        for name, by_server in measure(servers, page_cache, workdir, args).items():
            medians = {server: statistics.median(values) for server, values in by_server.items()}
            ratio = f" = {medians['muster'] / medians['kafka']:.2f} x" if len(medians) > 1 else ""
            print(f"{name}: {', '.join(f'{server} {value:.1f}' for server, value in medians.items())}{ratio}")


if __name__ == "__main__":
    main()
