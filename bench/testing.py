"""`python -m bench.testing` measures how much time a test spends on its server.

It measures the first server of a process, another server after it, and a hundred group tests with real clients. With
`--against HOST:PORT` these tests also run on an existing cluster. In a group test, three consumers join and share a
topic, and one leaves. The others read records and commit, which is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from typing import Final

from muster.testing import Muster
from muster.testing.against import Against
from tests.e2e.aio import consuming, read

STARTS: Final = 9
TESTS: Final = 100
FIRST: Final = """
import time
begin, cpu = time.perf_counter(), time.process_time()
from muster.testing import Muster
Muster().start()
print(time.perf_counter() - begin, time.process_time() - cpu)
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.testing", description=__doc__)
    parser.add_argument("--tests", type=int, default=TESTS, help="how many group tests (default: 100)")
    parser.add_argument("--against", metavar="HOST:PORT", help="a Kafka cluster on which they run too")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # aiokafka logs each rebalance
    first = [first_start() for _ in range(STARTS)]
    print(f"first server of a process, import included: {_ms(first)}")
    clean = [clean_start() for _ in range(STARTS)]
    print(f"a clean one after it: {_ms(clean)}")
    with Muster() as muster:
        print(f"{options.tests} group tests: {_s(group_tests(muster, options.tests))}")
    if options.against:
        with Muster(runner=Against(options.against)) as cluster:
            print(f"{options.tests} group tests on {options.against}: {_s(group_tests(cluster, options.tests))}")


def first_start() -> tuple[float, float]:
    """The seconds of wall time and CPU time until the first server of a new process has started."""
    done = subprocess.run([sys.executable, "-c", FIRST], check=True, capture_output=True, text=True)
    wall_s, cpu_s = done.stdout.split()
    return float(wall_s), float(cpu_s)


def clean_start() -> tuple[float, float]:
    """The seconds of wall time and CPU time until another server, with a topic, has started in this process."""
    begin, cpu_s = time.perf_counter(), time.process_time()
    muster = Muster(topics={"orders": 6}).start()
    took = time.perf_counter() - begin, time.process_time() - cpu_s
    muster.stop()
    return took


def group_tests(muster: Muster, count: int) -> tuple[float, float]:
    """The seconds of wall time, and of CPU time of this process, for `count` tests, one after the other."""
    begin, cpu_s = time.perf_counter(), time.process_time()
    for number in range(count):
        asyncio.run(group_test(muster, f"{begin:.0f}-{number}"))
    return time.perf_counter() - begin, time.process_time() - cpu_s


async def group_test(muster: Muster, name: str) -> None:
    """Run the group test that the module describes."""
    topic, group = muster.topic(f"topic-{name}").create(6), muster.group(f"group-{name}").aio
    topic.produce(*map(str, range(12)))
    async with AsyncExitStack() as stack:
        consumers = [
            await stack.enter_async_context(consuming(muster.bootstrap_servers, topic.name, group_id=f"group-{name}"))
            for _ in range(2)
        ]
        async with consuming(muster.bootstrap_servers, topic.name, group_id=f"group-{name}"):
            view = await group.wait_stable(members=3, partitions=topic.name, timeout=30)
            assert {len(one.assignment[topic.name]) for one in view.members} == {2}
        await group.wait_stable(members=2, partitions=topic.name, timeout=30)
        for consumer in consumers:
            await read(consumer, 6)
            await consumer.commit()
        assert (await group.wait_consumed(topic.name)).total_lag == 0
    topic.delete()


def _ms(samples: list[tuple[float, float]]) -> str:
    wall, cpu = (statistics.median(column) * 1000 for column in zip(*samples, strict=True))
    return f"{wall:.0f} ms, {cpu:.0f} ms of CPU"


def _s(sample: tuple[float, float]) -> str:
    return f"{sample[0]:.1f} s, {sample[1]:.1f} s of CPU"


if __name__ == "__main__":
    main()
