"""KIP-415 and KIP-851 in the order of a group's life: losses, returns, delays, and load that is balanced in steps."""

from __future__ import annotations

import pytest

from muster.assignors.connect.incremental import Round, assign
from muster.assignors.connect.work import State, Task, Work, backoff_ms

DELAY_MS = 10_000


class Cluster:
    """Workers that follow their assignments, and a leader."""

    def __init__(self, *names: str, max_delay_ms: int = DELAY_MS, **configured: int) -> None:
        self.configured = dict(configured)
        self.max_delay_ms = max_delay_ms
        self.work: dict[str, Work] = dict.fromkeys(names, ())
        self.state, self.now_ms, self.generation = State(), 0, 0

    def rebalance(self, *, after_ms: int = 0, missed: tuple[str, ...] = ()) -> Round:
        self.now_ms += after_ms
        result = assign(
            self.state,
            self.now_ms,
            self.work,
            self.configured,
            max_delay_ms=self.max_delay_ms,
            generation=self.generation + 1,
            completed_generation=self.generation,
        )
        self.state, self.generation = result.state, self.generation + 1
        for name, change in result.changes.items():
            if name not in missed:
                self.work[name] = change.running
        return result

    def settle(self) -> int:
        """Rebalance until nothing changes; the number of rounds that changed something."""
        for rounds in range(20):
            if not moved(self.rebalance(after_ms=self.state.delay_ms)):
                return rounds
        raise AssertionError("it never settles")

    def running(self) -> list[Task]:
        return sorted(item for work in self.work.values() for item in work)

    def everything(self) -> list[Task]:
        tasks = [Task(name, number) for name, count in self.configured.items() for number in range(count)]
        return sorted([*map(Task, self.configured), *tasks])


def moved(result: Round) -> bool:
    return any(change.assigned or change.revoked for change in result.changes.values())


@pytest.fixture
def cluster() -> Cluster:
    """Three workers that run three connectors of three tasks each."""
    cluster = Cluster("w1", "w2", "w3", a=3, b=3, c=3)
    cluster.settle()
    assert cluster.running() == cluster.everything()
    return cluster


def test_new_connectors_and_tasks_are_assigned_evenly(cluster: Cluster) -> None:
    assert {name: len(work) for name, work in cluster.work.items()} == {"w1": 4, "w2": 4, "w3": 4}


def test_the_work_of_a_lost_worker_waits_for_the_delay(cluster: Cluster) -> None:
    """Story 17, when the worker stays away."""
    lost = cluster.work.pop("w2")
    others = dict(cluster.work)
    result = cluster.rebalance(after_ms=500)
    assert (result.delay_ms, moved(result)) == (DELAY_MS, False)
    result = cluster.rebalance(after_ms=4_000)
    assert (result.delay_ms, moved(result)) == (DELAY_MS - 4_000, False)
    assert cluster.work == others
    result = cluster.rebalance(after_ms=DELAY_MS - 4_000)
    assert result.delay_ms == 0
    assert sorted(item for change in result.changes.values() for item in change.assigned) == sorted(lost)
    assert not any(change.revoked for change in result.changes.values())
    assert cluster.running() == cluster.everything()


def test_a_worker_back_within_the_delay_gets_its_work_back(cluster: Cluster) -> None:
    """Story 17: the other two never stop anything."""
    lost = cluster.work.pop("w2")
    others = dict(cluster.work)
    cluster.rebalance()
    cluster.work["w2-again"] = ()
    result = cluster.rebalance(after_ms=3_000)
    assert (result.delay_ms, moved(result)) == (DELAY_MS - 3_000, False)
    result = cluster.rebalance(after_ms=result.delay_ms)
    assert sorted(result.changes["w2-again"].assigned) == sorted(lost)
    assert {name: cluster.work[name] for name in others} == others
    assert not any(change.revoked for change in result.changes.values())


def test_a_worker_back_after_the_delay_gets_an_even_share(cluster: Cluster) -> None:
    del cluster.work["w2"]
    cluster.rebalance()
    cluster.rebalance(after_ms=DELAY_MS)
    cluster.work["w2"] = ()
    result = cluster.rebalance(after_ms=5_000)
    assert sum(len(change.revoked) for change in result.changes.values()) == 4
    assert not any(change.assigned for change in result.changes.values())
    result = cluster.rebalance()
    assert len(result.changes["w2"].assigned) == 4
    assert cluster.running() == cluster.everything()


def test_lost_work_is_assigned_at_once_without_a_delay() -> None:
    cluster = Cluster("w1", "w2", max_delay_ms=0, a=4)
    cluster.settle()
    del cluster.work["w2"]
    assert cluster.rebalance().delay_ms == 0
    assert cluster.running() == cluster.everything()


def test_an_assignment_that_did_not_arrive_is_sent_again(cluster: Cluster) -> None:
    cluster.configured["d"] = 3
    given = cluster.rebalance(missed=("w1", "w2", "w3"))
    again = cluster.rebalance()
    assert again.delay_ms == 0
    assert sorted(i for c in again.changes.values() for i in c.assigned) == sorted(
        i for c in given.changes.values() for i in c.assigned
    )
    assert cluster.running() == cluster.everything()


def test_work_of_a_missed_generation_counts_as_new(cluster: Cluster) -> None:
    """The leader's memory is dropped: then nothing counts as lost, and all work that no worker runs is new."""
    cluster.work.pop("w2")
    cluster.generation += 3
    assert cluster.rebalance().delay_ms == 0
    assert cluster.running() == cluster.everything()


def test_a_new_leader_assigns_the_lost_work_at_once(cluster: Cluster) -> None:
    """Only one leader remembers the delay: when that leader is lost, its work is new to the next leader."""
    cluster.work.pop("w1")
    cluster.state = State()
    assert cluster.rebalance().delay_ms == 0
    assert cluster.running() == cluster.everything()


def test_deleted_connectors_stop_and_the_rest_is_unchanged(cluster: Cluster) -> None:
    before = dict(cluster.work)
    del cluster.configured["b"]
    result = cluster.rebalance()
    stopped = {item for change in result.changes.values() for item in change.revoked}
    assert stopped >= {Task("b"), Task("b", 0), Task("b", 1), Task("b", 2)}
    assert all(item in before[name] for name, work in cluster.work.items() for item in work)
    cluster.settle()
    assert cluster.running() == cluster.everything()


def test_a_task_that_runs_twice_is_revoked_everywhere_and_started_once(cluster: Cluster) -> None:
    twice = cluster.work["w1"][0]
    cluster.work["w2"] += (twice,)
    result = cluster.rebalance()
    assert [name for name, change in result.changes.items() if twice in change.revoked] == ["w1", "w2"]
    cluster.settle()
    assert cluster.running() == cluster.everything()


def test_consecutive_revocations_for_balance_wait_longer_each_time(cluster: Cluster) -> None:
    """KIP-851: the next revocation waits for 40 ms, then for 1,600 ms, and at most for the delay."""
    cluster.work["w4"] = ()
    assert any(change.revoked for change in cluster.rebalance().changes.values())
    cluster.work["w5"] = ()
    delays = [cluster.rebalance().delay_ms]
    assert not any(change.revoked for change in cluster.rebalance(after_ms=1).changes.values())
    cluster.settle()
    assert delays == [40]
    assert cluster.running() == cluster.everything()
    assert [backoff_ms(attempts, DELAY_MS) for attempts in (1, 2, 3, 50)] == [40, 1600, DELAY_MS, DELAY_MS]
    assert [backoff_ms(3, bound) for bound in (0, 1, 2)] == [0, 1, 2]


@pytest.mark.parametrize(("workers", "connectors"), [(2, 3), (3, 10), (7, 5), (10, 10)])
def test_incremental_assignment_settles_evenly(workers: int, connectors: int) -> None:
    cluster = Cluster("w0", **{f"c{number}": number % 4 for number in range(connectors)})
    cluster.settle()
    for number in range(1, workers):
        cluster.work[f"w{number}"] = ()
    cluster.settle()
    assert cluster.running() == cluster.everything()
    for is_connector in (True, False):
        sizes = [sum((item.number < 0) == is_connector for item in work) for work in cluster.work.values()]
        assert max(sizes) - min(sizes) <= 1


def test_a_group_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one worker"):
        assign(State(), 0, {}, {}, generation=1, completed_generation=0)
