"""A mock cluster of librdkafka with one broker. It prints its address, and ends with its standard input."""

from __future__ import annotations

import sys

import confluent_kafka


def main() -> None:
    """Print the version, or start the broker."""
    if "--version" in sys.argv:
        print(confluent_kafka.libversion()[0])
        return
    # the broker is that of a producer: so long as the producer lives
    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none:1", "log_level": 0})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
