"""`python -m bench.substitutes.holder mock|thread` runs a server as in a test's own process, until it is killed.

Prints a line of JSON: the server's address, the seconds of its start, and memory and CPU time before that. At that time
confluent-kafka is imported already, as in any test.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def mock() -> Iterator[str]:
    """Start librdkafka's mock cluster."""
    client = confluent_kafka.Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = client.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    client.flush(0)


@contextmanager
def thread() -> Iterator[str]:
    """Start Muster in a thread."""
    from muster.testing import Muster

    with Muster() as muster:
        yield muster.bootstrap_servers


def main() -> None:
    # every test imports a client
    confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    before = {"bytes": resident_bytes(), "cpu_s": time.process_time()}
    began = time.monotonic()
    with {"mock": mock, "thread": thread}[sys.argv[1]]() as bootstrap:
        facts = {"bootstrap": bootstrap, "seconds": time.monotonic() - began, **before}
        print(json.dumps(facts), flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
