"""What all workers share: `WORKER BOOTSTRAP GROUP INPUT OUTPUT PARTITIONS NAME [static]`.

A worker reads numbers from INPUT as a member of GROUP, and for each writes `PARTITION:OFFSET:NUMBER:NAME` to OUTPUT
(PARTITIONS partitions), with the offsets in the same transaction. Now and then it aborts one and does it again.
It says `joined` (something is assigned), `committed N` (records of a transaction), `aborted`, `fenced`, and, before it
ends because its client will not go on, `failed WHY`. It ends in order when its stdin does.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import threading
from typing import NamedTuple

MAX_RECORDS = 10
"""Of one transaction."""
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
        """Partition and value of the output."""
        made = f"{partition}:{offset}:{value.decode()}:{self.name}"
        return int(value) % self.partitions, made.encode()


def job() -> Job:
    """What it was started for."""
    bootstrap, group, source, target, partitions, name, *more = sys.argv[1:]
    return Job(bootstrap, group, source, target, int(partitions), name, name if "static" in more else None)


def say(*words: object) -> None:
    """One line to whoever started it."""
    print(*words, flush=True)


def lives() -> None:
    """Called again and again. A worker that does not ends, as if somebody had killed it; its log has where it was.

    Some clients wait for ever for an answer of a server that was killed.
    """
    faulthandler.dump_traceback_later(HANGS_S, exit=True)


def is_to_abort() -> bool:
    """Now and then."""
    return random.randrange(ABORTED_ONE_IN) == 0


def ending() -> threading.Event:
    """Set when stdin has ended."""
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return ended
