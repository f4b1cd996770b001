"""Each write of a transaction in turn kills the server, before or after the write; then the server is started again.

The producer asks until it is answered. Then committed records must be there once, and aborted records never.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.conftest import create_topic
from tests.exactly_once.application import shown
from tests.exactly_once.by_hand import PATIENCE_S, Producer, Refused
from tests.exactly_once.checker import Checker
from tests.exactly_once.deaths import condemn, executable
from tests.exactly_once.run import SETTINGS, open_transactions
from tests.exactly_once.segments import OFFSETS, offset_record
from tests.support.servers import QUICK, MusterServer

GROUP, INPUT, OUTPUT = "counting", "numbers", "counted"
OUTPUTS = 3
MAX_WRITES = 60
"""The largest number of writes of one transaction: with more, the count must be wrong."""
MOMENTS = ("before", "after")


class Sweep:
    """`deaths`: how often the server died."""

    def __init__(self, workdir: Path) -> None:
        self.deaths = 0
        self.faults: list[str] = []
        self._file = workdir / "death"
        workdir.mkdir(parents=True, exist_ok=True)
        self.server = MusterServer(workdir, {**QUICK, **SETTINGS}, executable=executable(workdir, self._file))
        self._kept: list[bytes] = []
        self._dropped: list[bytes] = []
        self._offset = 0

    async def run(
        self,
        versions: Sequence[int] = (1, 2),
        outcomes: Sequence[bool] = (True, False),
        first: int = 1,
        step: int = 1,
        moments: Sequence[str] = MOMENTS,
    ) -> list[str]:
        """Test every `step`-th write from the `first`, of transactions of these versions and outcomes; the
        violations.
        """
        await asyncio.to_thread(self.server.start)
        try:
            create_topic(self.server, INPUT, 1)
            create_topic(self.server, OUTPUT, OUTPUTS)
            for version in versions:
                producer = Producer(self.server.address, f"sweep-{version}", version, self._again)
                await producer.init()
                await self._transaction(producer, "warm", True)
                for is_kept in outcomes:
                    for moment in moments:
                        await self._all_writes(producer, is_kept, moment, first, step)
                await producer.close()
        except Refused as refusal:
            return [str(refusal)]
        finally:
            if self.server.running:
                self.server.stop()
        return self._judged()

    async def _all_writes(self, producer: Producer, is_kept: bool, moment: str, first: int, step: int) -> None:
        for number in range(first, MAX_WRITES, step):
            before = self.deaths
            condemn(self._file, number, moment)
            what = f"v{producer.version} {'commit' if is_kept else 'abort'}: died {moment} write {number}"
            try:
                await self._transaction(producer, what.replace(" ", "-"), is_kept)
                await self._completed()
                self._file.unlink(missing_ok=True)
                await self._transaction(producer, f"after-{what}".replace(" ", "-"), True)
                await self._completed()
            except Refused as refusal:
                raise Refused(f"{what}: {refusal}") from None
            if self.deaths == before:
                return
        raise AssertionError(f"the server still dies at write {MAX_WRITES} of a transaction")

    async def _transaction(self, producer: Producer, name: str, is_kept: bool) -> None:
        values = [f"{name}:{number}".encode() for number in range(OUTPUTS)]
        for partition, value in enumerate(values):
            await producer.write(OUTPUT, partition, value)
        await producer.offset(GROUP, INPUT, 0, self._offset + 1)
        await producer.end(is_kept)
        (self._kept if is_kept else self._dropped).extend(values)
        self._offset += is_kept

    async def _completed(self) -> None:
        """Wait until all markers are written: the answer to the end came before them."""
        deadline, states = time.monotonic() + PATIENCE_S, dict[str, str]()
        while time.monotonic() < deadline:
            try:
                states = await asyncio.to_thread(open_transactions, self.server)
            except (OSError, EOFError):
                await self._again()
            else:
                if not states:
                    return
                await asyncio.sleep(0.002)
        raise Refused(f"still {states} after {PATIENCE_S:.0f} s")

    async def _again(self) -> None:
        """Start the server again if it died."""
        if not self.server.running or not await asyncio.to_thread(_lives, self.server):
            self.deaths += 1
            self.server.kill()  # the server is dead: its handle notices this
            await asyncio.to_thread(self.server.start)

    def _judged(self) -> list[str]:
        checker = Checker(self.server.workdir / "data")
        faults = list(checker.faults)
        found = sorted(shown(checker, OUTPUT).values())
        if found != sorted(self._kept):
            lost, more = set(self._kept) - set(found), set(found) - set(self._kept)
            faults.append(f"lost {sorted(lost)}, shown and not committed {sorted(more)}, {len(found)} in all")
        rows = [
            offset_record(record)
            for place, partition in checker.partitions.items()
            if place.topic == OFFSETS
            for _, record in partition.committed
        ]
        offsets = [row.offset for row in rows if row is not None and row.group == GROUP]
        # a TxnOffsetCommit whose answer was lost is sent again, and is in its transaction twice
        if list(dict.fromkeys(offsets)) != list(range(1, self._offset + 1)):
            faults.append(f"{self._offset} offsets were committed one by one, in the log are {offsets}")
        return faults


def _lives(server: MusterServer) -> bool:
    """Whether it accepts connections: a killed process may exist for a moment more."""
    try:
        socket.create_connection(server.address, timeout=30).close()
    except OSError:
        return False
    return True
