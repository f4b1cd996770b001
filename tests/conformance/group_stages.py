"""Groups of one type on Muster and Kafka, and what Kafka's own tools print of them there, word by word."""

from __future__ import annotations

import asyncio
import re
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import pytest

from tests.conformance.java_tools import NOISE, Tools
from tests.e2e.conftest import create_topic
from tests.e2e.sync_clients import confluent_produce
from tests.support.servers import QUICK, KafkaServer, MusterServer, ServerProcess

TOPICS: Final = {"orders": 2, "payments": 1}
"""The topics of both servers, with their partitions."""


class Stage:
    """The groups on one server, and the output of the tools there."""

    def __init__(self, server: ServerProcess, tools: Tools) -> None:
        self.server, self._tools = server, tools

    def fill(self) -> None:
        """Make topics and groups."""
        for topic, partitions in TOPICS.items():
            create_topic(self.server, topic, partitions)
            for partition in range(partitions):
                confluent_produce(self.server.bootstrap, topic, [(None, b"v")] * 10, partition=partition)
        asyncio.run(self._join())

    @abstractmethod
    async def _join(self) -> None:
        """Make the groups."""

    def __call__(self, *words: str) -> str:
        text = self._tools(words[0], "--bootstrap-server", self.server.bootstrap, *words[1:])
        text = text.replace(self.server.bootstrap, "HOST:PORT")
        text = text.partition("\nOption  ")[0]  # a wrong command, and then the correct one
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME", text)
        head, *lines = text.splitlines()
        return "\n".join(
            [head, *sorted(line.rstrip() for line in lines if line.strip() and not line.startswith(NOISE))]
        )


StageT = TypeVar("StageT", bound=Stage)


def filled(
    folders: pytest.TempPathFactory, tools: Tools, patient: Mapping[str, str], kind: type[StageT]
) -> Iterator[tuple[StageT, StageT]]:
    """Muster and Kafka with the same groups."""
    settings = {**QUICK, **patient}
    servers = (
        MusterServer(folders.mktemp("muster"), settings, in_memory=True),
        KafkaServer(folders.mktemp("kafka"), settings),
    )
    stages = [kind(server, tools) for server in servers]
    try:
        for stage in stages:
            stage.server.start()
            stage.fill()
        yield stages[0], stages[1]
    finally:
        for server in servers:
            server.stop()


def check_equal(pair: tuple[Stage, Stage], commands: Iterable[tuple[str, ...]], tries: int) -> None:
    """Check that each command prints the same on both. Kafka asks the leaders of partitions for their ends, which may
    not be known at once: so a command that differs is run again, at most `tries` times.
    """
    muster, kafka = pair
    differ = {}
    for words in commands:
        ours, theirs = muster(*words), kafka(*words)
        for _ in range(tries):
            if ours == theirs:
                break
            time.sleep(0.5)
            ours, theirs = muster(*words), kafka(*words)
        if ours != theirs:
            differ[" ".join(words)] = f"ours:\n{ours}\ntheirs:\n{theirs}\n"
    assert not differ, "\n".join(f"=== {words}\n{texts}" for words, texts in differ.items())
