"""What all workers share: `WORKER BOOTSTRAP GROUP INPUT OUTPUT PARTITIONS NAME [static]`.

A worker reads numbers from INPUT as a member of GROUP. For each number it writes `PARTITION:OFFSET:NUMBER:NAME` to
OUTPUT (PARTITIONS partitions), with the offsets in the same transaction. It aborts some transactions, and does them
again. Its output lines are `joined` (it has partitions), `committed N` (records of a transaction), `aborted` and
`fenced`. It writes `failed WHY` before it ends because its client cannot continue. It ends in order when its stdin
ends.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import threading
from typing import NamedTuple

MAX_RECORDS = 10
"""The largest number of records of one transaction."""
ABORTED_ONE_IN = 8
TRANSACTION_TIMEOUT_MS = 20_000
SESSION_TIMEOUT_MS = 1_500
HEARTBEAT_MS = 200
POLL_MS = 100
HANGS_S = 12


class Job(NamedTuple):
    """The command line."""

    bootstrap: str
    group: str
    input: str
    output: str
    partitions: int
    name: str
    instance: str | None

    @property
    def transactional_id(self) -> str:
        """One for each worker (KIP-447)."""
        return f"{self.group}-{self.name}"

    def made_of(self, partition: int, offset: int, value: bytes) -> tuple[int, bytes]:
        """The partition and the value of the output."""
        made = f"{partition}:{offset}:{value.decode()}:{self.name}"
        return int(value) % self.partitions, made.encode()


def job() -> Job:
    """The arguments of this worker."""
    bootstrap, group, source, target, partitions, name, *more = sys.argv[1:]
    return Job(bootstrap, group, source, target, int(partitions), name, name if "static" in more else None)


def say(*words: object) -> None:
    """Write one line to stdout."""
    print(*words, flush=True)


def lives() -> None:
    """Note that the worker lives. A worker that stops calling it ends, as if it were killed; its log shows where it
    was.

    Some clients wait for ever for an answer of a killed server.
    """
    faulthandler.dump_traceback_later(HANGS_S, exit=True)


def is_to_abort() -> bool:
    """Whether to abort, at random."""
    return random.randrange(ABORTED_ONE_IN) == 0


def ending() -> threading.Event:
    """Set when stdin has ended."""
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return ended
