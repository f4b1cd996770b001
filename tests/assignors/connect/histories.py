"""Random histories of Connect groups: workers join, die and come back, connectors are made and deleted, assignments get
lost.

`ConnectAssignors.java` reads a history as {"max_delay_ms", "rounds"}; `play` answers in the form of that program's
answers.
"""

from __future__ import annotations

import random
from typing import Any

from muster.assignors.connect.leader import Rebalance, Snapshot, perform
from muster.assignors.connect.work import State, Task, from_rows, to_rows
from muster.protocol.connect import (
    NAMES,
    ConnectAssignment,
    ConnectWorkerState,
    decode_assignment,
    encode_worker_state,
)

History = dict[str, Any]
Answer = dict[str, Any]


def answer(state: State, row: dict[str, Any], max_delay_ms: int) -> tuple[State, Answer]:
    """What our leader answers in one round, and what it remembers."""
    members = [(name, bytes.fromhex(metadata)) for name, metadata in row["members"]]
    result = perform(
        Rebalance(row["leader"], row["protocol"], members, row["generation"], row["completed_generation"]),
        state,
        row["now_ms"],
        Snapshot(row["offset"], row["configured"]),
        fresh=Snapshot(row["fresh_offset"], row["configured"]),
        max_delay_ms=max_delay_ms,
    )
    return result.state, {
        "assignments": {name: data.hex() for name, data in result.assignments.items()},
        "delay_ms": result.state.delay_ms,
        "rebalance_at_ms": result.state.rebalance_at_ms,
        "owners": {str(item): name for name, work in result.running.items() for item in work},
    }


def play(history: History) -> list[Answer]:
    """What our leader answers in each round."""
    state, answers = State(), []
    for row in history["rounds"]:
        state, said = answer(state, row, history["max_delay_ms"])
        answers.append(said)
    return answers


class _Worker:
    """A worker of the history: what it runs, and how far it has read the config topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.assignment: ConnectAssignment | None = None
        self.offset = 1

    def metadata(self, version: int) -> bytes:
        assignment = self.assignment if version else None
        return encode_worker_state(ConnectWorkerState(f"http://{self.name}/", self.offset, assignment), version)

    def hear(self, data: bytes, eager: bool) -> None:
        """Do what WorkerCoordinator.onJoinComplete does."""
        _, assignment = decode_assignment(data)
        if not eager and self.assignment is not None:
            revoked = set(from_rows(assignment.revoked))
            kept = [item for item in from_rows(self.assignment.assigned) if item not in revoked]
            assignment.assigned = to_rows(dict.fromkeys((*from_rows(assignment.assigned), *kept)))
        self.assignment = assignment


class _Story:
    """Makes one history, round after round. The workers of the history get the answers of our own assignor."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.max_delay_ms = rng.choice((0, 1, 30, 500, 5_000, 300_000, 300_000, rng.randrange(2, 3_000_000)))
        self.now_ms = rng.choice((0, 1, 1_700_000_000_000))
        self.next = 0
        self.workers = [self.new_worker() for _ in range(rng.choice((1, 2, 3, 3, 4, 6, 12, 40)))]
        self.gone: list[_Worker] = []
        self.configured: dict[str, int] = {}
        for _ in range(rng.choice((0, 1, 2, 3, 5, 8, 20))):
            self.configure()
        self.generation = rng.randrange(1, 5)
        self.completed = rng.choice((-1, self.generation - 1))
        self.calm = rng.random() < 0.5

    def name(self, kind: str) -> str:
        self.next += 1
        n = self.next
        return self.rng.choice(
            (
                f"{kind}{n}",
                f"{kind}-{n}-{self.rng.getrandbits(128):032x}",
                f"{self.rng.choice('abAB')}{n}",
                f"{kind}-ü{chr(0xFF00 + n % 90)}{n}",
                f"{kind}-\N{GRINNING FACE}{n}",
            )
        )

    def new_worker(self) -> _Worker:
        return _Worker(self.name("worker"))

    def configure(self) -> None:
        self.configured[self.name("connector")] = self.rng.choice((0, 1, 1, 2, 3, 7, 20))

    def disturb(self) -> None:
        """Something happens between two rebalances."""
        rng = self.rng
        what = rng.choice(("die", "die", "join", "return", "return", "create", "delete", "resize", "zombie", "nothing"))
        if what == "die" and len(self.workers) > 1:
            self.gone.append(self.workers.pop(rng.randrange(len(self.workers))))
        elif what == "join" and len(self.workers) < 60:
            self.workers.append(self.new_worker())
        elif what == "return" and self.gone:
            back = self.gone.pop(rng.randrange(len(self.gone)))
            back.name = rng.choice((back.name, self.name("worker")))
            back.assignment = rng.choice((None, None, back.assignment))
            self.workers.append(back)
        elif what == "create":
            self.configure()
        elif what == "delete" and self.configured:
            del self.configured[rng.choice(list(self.configured))]
        elif what == "resize" and self.configured:
            self.configured[rng.choice(list(self.configured))] = rng.randrange(6)
        elif what == "zombie" and not self.calm:
            self.zombie()

    def zombie(self) -> None:
        """A worker runs what it must not run: another worker's connector, or an unknown one."""
        worker, other = self.rng.choice(self.workers), self.rng.choice(self.workers)
        if worker.assignment is None or other.assignment is None:
            return
        extra = self.rng.choice(
            (
                from_rows(other.assignment.assigned),
                (Task("ghost"), Task("ghost", 3)),
                from_rows(worker.assignment.revoked),
            )
        )
        worker.assignment.assigned = to_rows(dict.fromkeys((*from_rows(worker.assignment.assigned), *extra)))

    def round(self, protocol: str, planned_ms: int) -> dict[str, Any]:
        rng = self.rng
        until = planned_ms - self.now_ms
        steps = [0, 1, rng.randrange(1, 10_000)]
        if until > 0:
            steps += [until, until, until + 1, until - 1, until // 2]
        self.now_ms += max(0, rng.choice(steps))
        version = {name: version for version, name in NAMES.items()}[protocol]
        offset = max(worker.offset for worker in self.workers)
        behind = rng.random() < 0.05
        self.workers.sort(key=lambda worker: rng.random())
        return {
            "protocol": protocol,
            "now_ms": self.now_ms,
            "generation": self.generation,
            "completed_generation": self.completed,
            "leader": rng.choice(self.workers).name,
            "members": [[worker.name, worker.metadata(version).hex()] for worker in self.workers],
            "offset": offset - 1 if behind else offset + rng.randrange(2),
            "fresh_offset": offset - 1 if behind and rng.random() < 0.5 else offset + 1,
            "configured": dict(self.configured),
        }

    def play(self, rounds: int) -> tuple[History, list[Answer]]:
        rng = self.rng
        history: History = {"max_delay_ms": self.max_delay_ms, "rounds": []}
        answers: list[Answer] = []
        state = State()
        cooperative = rng.choice(("sessioned", "compatible"))
        for _ in range(rounds):
            protocol = "default" if rng.random() < 0.03 else cooperative
            planned_ms = answers[-1]["rebalance_at_ms"] if answers else 0
            history["rounds"].append(self.round(protocol, planned_ms))
            state, said = answer(state, history["rounds"][-1], self.max_delay_ms)
            answers.append(said)
            for worker in self.workers:
                if self.calm or rng.random() < 0.95:
                    worker.hear(bytes.fromhex(answers[-1]["assignments"][worker.name]), protocol == "default")
                worker.offset += rng.random() < 0.1
            if self.calm or rng.random() < 0.9:
                self.completed = self.generation
            self.generation += rng.choice((1, 1, 1, 2))
            for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
                self.disturb()
        return history, answers


def draw(seed: int) -> tuple[History, list[Answer]]:
    """A history and our answers to it."""
    rng = random.Random(seed)
    return _Story(rng).play(rng.choice((2, 4, 6, 8, 12)))
