"""The durations of syncs, which a server counts for its metrics."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

from muster.coordinator.log.storage.shared_sync import SharedSync, Sync
from muster.coordinator.system.clock import ManualClock


class _AtOnce(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        fn(*args, **kwargs)
        return Future()


def test_each_sync_is_timed_also_a_failed_one_and_a_shared_one() -> None:
    clock, took_us, outcomes = ManualClock(), list[int](), list[OSError | None]()
    sync = SharedSync(lambda call: call(), executor=_AtOnce())
    failure = OSError(5, "of the test")

    def syncing(ms: int, *, fails: bool = False) -> Sync:
        def job() -> None:
            clock.advance(ms)
            if fails:
                raise failure

        return job, outcomes.append

    sync.sync(lambda: syncing(1))
    sync.time_syncs(clock, took_us.append)
    sync.sync(lambda: syncing(2))
    sync.sync(lambda: syncing(3, fails=True))
    sync.share(lambda: clock.advance(20), clock)
    for _ in range(3):
        sync.sync(lambda: syncing(4))
    while len(outcomes) < 6:
        clock.advance(1)
    assert took_us == [2_000, 3_000, 20_000]
    assert outcomes == [None, None, failure, None, None, None]
