"""A client in virtual time. Its script continues after each answer."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any

from muster.coordinator.state_machine.interface import Client

Script = Generator[Any, Any, None]
"""The script of a client. It yields a request, and gets the response (None: the response was lost). Or it yields ms to
sleep, or None to wait until another script replaces it (`Actor.again`).
"""


class Actor:
    """A client process, with its script and the latency of its connection.

    `turn` counts how often the script has continued. An answer or a timer for an earlier turn is ignored. The world is
    a `World`, or any object with the members `later`, `send`, `ms` and `events` of a `World`.
    """

    two_step = skip = True
    """Whether the client's version of JoinGroup first asks for a member id, and lets the leader skip the assignment."""

    versions: Mapping[str, int] = MappingProxyType({})
    """The versions of the client's requests, by API, if it is an older client. The world decides all other versions."""

    def __init__(self, world: Any, name: str, host: str = "/10.0.0.1") -> None:
        self.world = world
        self.name = name
        self.client = Client(name, host)
        self.latency_ms = 2
        self.turn = 0
        self.paused_until_ms = 0
        self.script: Script | None = None

    def live(self) -> Script:
        raise NotImplementedError

    def start(self, script: Script | None = None) -> None:
        self.script = self.live() if script is None else script
        self.resume(None)

    def kill(self) -> None:
        """End the process. Answers that arrive later are ignored."""
        self.script = None
        self.turn += 1

    def again(self, script: Script) -> None:
        """End the present script, and start another one."""
        self.kill()
        self.start(script)

    def resume(self, value: object) -> None:
        """Continue the script with an answer, or after a sleep."""
        script = self.script
        if script is None:
            return
        self.turn += 1
        self.world.events += 1
        try:
            what = script.send(value)
        except StopIteration:
            if script is self.script:
                self.kill()
            return
        if script is not self.script or what is None:
            return
        if type(what) is int:
            self.world.later(what, self._wake, self.turn)
        else:
            self.world.send(self, what)

    def take(self, turn: int, response: object) -> None:
        """Continue with the response for `turn`, as soon as the process runs. A response for an earlier turn is
        ignored.
        """
        if turn == self.turn:
            if self.paused_until_ms > self.world.ms:
                wait_ms = self.paused_until_ms - self.world.ms
                self.world.later(wait_ms, lambda _: self.take(turn, response))
            else:
                self.resume(response)

    def _wake(self, turn: int) -> None:
        self.take(turn, None)
