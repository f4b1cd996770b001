"""A core of share partition states for tests: short requests, and a log of all records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.core import Forget, ShareStateCore, ShareStateSettings
from muster.coordinator.share_state.persister import (
    DeleteState,
    InitializeState,
    LoadedState,
    ReadState,
    ReadSummary,
    StateKey,
    StateRequest,
    StateResponse,
    Summary,
    WriteState,
)
from muster.coordinator.share_state.requests import StateCommand
from muster.coordinator.share_state.state import LogPosition
from muster.coordinator.state_machine.interface import Client, Now, Record
from muster.coordinator.state_machine.output import Output
from muster.protocol.message import Message

TOPIC_ID = bytes(15) + b"\1"
KEY = StateKey("g", TOPIC_ID, 0)
START = Now(10_000, 1_700_000_000_000)


class StateHarness:
    """One core, its time and its log. `pruned_to`: the offset before which the core needs no record."""

    def __init__(self, **settings: int) -> None:
        self.settings = ShareStateSettings(**settings)
        self.now = START
        self.records: list[Record] = []
        self.pruned_to = 0
        self.partitions = 2
        self.max_bytes = 1_000_000
        self.core = self.load()

    def load(self, start: int = 0) -> ShareStateCore:
        """A new core with the state of the log from the offset `start` on."""
        self.core = ShareStateCore(self.settings, self._prune)
        position: list[tuple[Message, Message | None]] = [(LogPosition(start), None)]
        rest = [(record.key, record.value) for record in self.records[start:]]
        assert self.core.replay(position + rest, self.now) == 1 + len(rest)
        self.collect(self.core.loaded(self.now))
        return self.core

    def _prune(self, position: Message) -> None:
        assert isinstance(position, LogPosition)
        self.pruned_to = position.offset

    def collect(self, output: Output) -> None:
        self.records += output.records
        for respond, response in output.replies:
            respond(response)

    def advance(self, ms: int) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now.mono_ms + ms
        while (due := self.core.next_deadline_ms()) is not None and due <= end:
            self._move(max(due, self.now.mono_ms))
            self.collect(self.core.advance(self.now))
        self._move(end)

    def _move(self, mono_ms: int) -> None:
        self.now = Now(mono_ms, self.now.wall_ms + mono_ms - self.now.mono_ms)

    def forget(self, *keys: StateKey) -> None:
        self.collect(self.core.handle(Forget(keys), self.now))

    def ask(self, request: StateRequest) -> Any:
        answers: list[Message] = []
        command = StateCommand(request, answers.append, Client("broker", "/10.0.0.1"), partitions=self.partitions)
        self.collect(self.core.handle(command, self.now, self.max_bytes))
        (answer,) = answers
        return answer

    # ---- requests

    def initialize(self, state_epoch: int = 1, start: int = 0, key: StateKey = KEY) -> StateResponse:
        answer: StateResponse = self.ask(InitializeState(key, state_epoch, start))
        return answer

    def read(self, leader_epoch: int = 0, key: StateKey = KEY) -> LoadedState:
        answer: LoadedState = self.ask(ReadState(key, leader_epoch))
        return answer

    def write(
        self, *rows: tuple[int, int, int, int], start: int = -1, done: int = 0, leader_epoch: int = 0,
        state_epoch: int = 1, key: StateKey = KEY,
    ) -> StateResponse:  # fmt: skip
        found: Sequence[Row] = [Row(*row) for row in rows]
        answer: StateResponse = self.ask(WriteState(key, state_epoch, leader_epoch, start, done, found))
        return answer

    def delete(self, key: StateKey = KEY) -> StateResponse:
        answer: StateResponse = self.ask(DeleteState(key))
        return answer

    def summary(self, key: StateKey = KEY) -> Summary:
        answer: Summary = self.ask(ReadSummary(key))
        return answer

    def state(self) -> dict[StateKey, tuple[Any, ...]]:
        """Everything that the core knows, for comparisons."""
        return {
            key: tuple(getattr(one, name) for name in one.__slots__) for key, one in self.core.states.partitions.items()
        }
