"""A chapter: some thousand inputs to one whole node in virtual time, drawn from a seed.

Beside the attackers there are members of groups that must not be disturbed. A violation is a `Fault`: an exception, an
invalid answer, an iteration of the loop with more than 50 ms of CPU time, or unbounded memory. Inputs that the node
answers in a new way are kept, and changed further.
"""

from __future__ import annotations

import gc
import pkgutil
import re
import resource
import time
from collections import Counter
from importlib import import_module
from random import Random
from typing import Any, Final, NamedTuple

import structlog

from muster import coordinator
from muster.coordinator.log import MemoryStorage
from muster.coordinator.system.clock import Clock
from muster.protocol.message import Message
from muster.simulation.actor import Actor
from muster.simulation.network import Network
from muster.simulation.process import Process
from muster.virtual.faulty_storage import FaultyStorage
from muster.virtual.machine import PORT
from muster.virtual.world import World
from tests.support.servers import QUICK
from tests.torture.clients import Committer
from tests.torture.ledger import Ledger
from tests.torture.node.history import BUGS
from tests.torture.wire import bearer
from tests.torture.wire.attacker import PASSWORD, USER, Attacker, as_sent, handshake, login
from tests.torture.wire.drawing import QUIET, Drawing, Drawn, Known, kinds
from tests.torture.wire.mutating import MAX_BYTES, mutated
from tests.torture.wire.records import Batches, bombs, liars

INPUTS: Final = 5_000
"""The inputs of one chapter."""
TURN_MS: Final = 50
STEPS_IN_A_MS: Final = 40
"""Steps of work in slices in one ms: a step takes some 20 us."""
SLOW: Final = "a turn of the loop took"
MAX_MEMORY_MB: Final = 400
"""One input may raise the process's greatest size by this number of MB: batches of a request may decompress to 256 MB.
"""
SASL_PORT: Final = PORT + 1
ATTACKERS: Final = 12
CORPUS: Final = 400
NEVER: Final = 1 << 60
START_MS: Final = 60_000
REST_MS: Final = 120_000
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_JAAS: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Fault(AssertionError):
    """A violation of a rule."""


class Step(NamedTuple):
    """One action, for the file of a failure: connection (negative: cut), port, bytes."""

    connection: int
    port: int
    data: bytes


class ChapterWorld(World):
    """The world around the node."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.faults: list[str] = []
        self.process: Process | None = None
        self.up = False
        self.network = Network(self, lambda: self.process, self, patience_ms=NEVER)

    def send(self, actor: Actor, request: Message) -> None:
        self.network.send(actor, request)

    def answered(self, actor: Actor, request: Message, response: Any) -> None:
        """A member that must not be disturbed was answered."""

    def unanswered(self, request: Message) -> None:
        """A member that must not be disturbed got no answer."""
        self.fault(f"{request!r} of an innocent member was never answered")

    def started(self) -> None:
        """Note that the node listens."""
        self.up = True

    def start_failed(self, error: BaseException) -> None:
        raise error

    def ended(self, *, was_clean: bool) -> None:
        """Note that the node has ended."""
        self.up = False

    def fault(self, what: str, cause: BaseException | None = None) -> None:
        """Report a violation."""
        self.faults.append(f"{what}{'' if cause is None else f' ({_where(cause)})'}")


class TickingClock:
    """The node's clock for work in slices: time passes with each step, otherwise a slice would never end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steps = 0
        self.call_soon, self.mono_us = clock.call_soon, clock.mono_us

    def mono_ms(self) -> int:
        """The time, with that of the steps."""
        self._steps += 1
        return self._clock.mono_ms() + self._steps // STEPS_IN_A_MS


class Log:
    """Reads what the server logs, and writes nothing."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.last = ""
        self._before = structlog.get_config()
        structlog.configure(processors=[self._read], wrapper_class=structlog.BoundLogger)

    def _read(self, _: object, method: str, event: dict[str, Any]) -> Any:
        said = event["event"]
        if method == "warning":
            self.last = re.sub(r"\d+", "0", str(event.get("why", said)))
        if said in BUGS or "exc_info" in event:
            error = event.get("exc_info")
            where = _where(error) if isinstance(error, BaseException) else ""
            rest = {name: value for name, value in event.items() if name not in ("event", "exc_info")}
            self.faults.append(f"the log says: {said}: {error!r} {where} {rest}")
        elif method in ("error", "critical", "exception"):
            self.faults.append(f"the log says: {event}")
        raise structlog.DropEvent

    def close(self) -> None:
        """Restore the loggers."""
        structlog.configure(**self._before)


class Chapter:
    """The chapter of this module. `faults`: the violations, each as a sentence; `steps`: the actions until then."""

    def __init__(self, seed: int, inputs: int = INPUTS) -> None:
        self.seed = seed
        self.inputs = inputs
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.steps: list[Step] = []
        self.slowest_ms = 0.0
        self.slowest = b""
        self._rng = rng = Random(seed)
        self._world = ChapterWorld(Random(seed + 1))
        self._known = Known()
        self._drawing = Drawing(rng, self._known, kinds(), Batches())
        self._corpus: list[bytes] = []
        self._seen: set[object] = set()
        self._attackers: list[tuple[int, Attacker]] = []
        self._opened = 0
        self._correlation = 0
        self._turn_ms = 0.0
        self._last = b""

    def run(self) -> None:
        """Play the chapter; the faults are reported afterwards."""
        log = self._log = Log()
        was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
        gc.disable()  # a garbage collection of the test's objects is not the server's work
        bombs(), liars()
        try:
            self._start()
            while self.counts["inputs"] < self.inputs:
                self._input()
                self._judge()
                if self.faults:
                    return
            self._end()
        finally:
            log.close()
            process = self._world.process
            if process is not None:
                if process.alive:
                    process.kill()
                process.loop.close()
            if not was_frozen:
                gc.unfreeze()
            if was_enabled:
                gc.enable()

    # ---- the node

    def _start(self) -> None:
        rng, world = self._rng, self._world
        properties = {
            **QUICK,
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "2",
            "listeners": f"PLAINTEXT://127.0.0.1:{PORT},SASL_PLAINTEXT://127.0.0.1:{SASL_PORT}",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
            **bearer.properties("sasl_plaintext", bearer.keys_file()),
            "connections.max.reauth.ms": rng.choice(("0", "5000")),
            "queued.max.request.bytes": rng.choice(("-1", "110000000")),
        }
        if rng.random() < 0.4:
            properties |= {"authorizer.class.name": _AUTHORIZER, "super.users": "User:ANONYMOUS"}
        process = world.process = Process(
            world, world, FaultyStorage(self.seed, NEVER, on=MemoryStorage()), properties,
            topics=["work:3", f"{QUIET}:1"], listen=None, users=[f"{USER}:{PASSWORD}"],
        )  # fmt: skip
        process.begin()
        if not world.run(lambda: world.up, START_MS):
            raise Fault("the node does not start")
        self._ledger = Ledger()
        self._innocent = [
            Committer(world, self._ledger, f"innocent-{n}", QUIET, is_member=True, pause_ms=lambda: 3_000)
            for n in range(3)
        ]
        for one in self._innocent:
            one.start()
        if not world.run(lambda: all(one.assigned is not None for one in self._innocent), REST_MS):
            raise Fault("the innocent groups do not settle")
        self._joins = [one.joins for one in self._innocent]
        gc.collect()
        gc.freeze()
        job_queue: Any = process.server.node.job_queue
        job_queue._clock = TickingClock(job_queue._clock)
        turn: Any = process.loop.iterate

        def timed() -> bool:
            began = time.thread_time()
            more: bool = turn()
            self._turn_ms = max(self._turn_ms, (time.thread_time() - began) * 1_000)
            return more

        process.loop.iterate = timed

    def _end(self) -> None:
        """End: all clients disconnect, and the node stops in order."""
        world, process = self._world, self._world.process
        assert process is not None
        for _, one in self._attackers:
            one.wire.cut()
        world.run(lambda: False, 10_000)
        if [one.joins for one in self._innocent] != self._joins or not all(one.is_at_work for one in self._innocent):
            self.faults.append("a group that nobody touched has rebalanced")
        self.counts["commits of innocents"] += self._ledger.acknowledgements
        before = self._ledger.acknowledgements
        world.run(lambda: self._ledger.acknowledgements >= before + 3, 20_000)
        if self._ledger.acknowledgements < before + 3:
            self.faults.append("members that nobody touched are not served any more")
        process.stop()
        if not world.run(lambda: not world.up, REST_MS):
            self.faults.append("the node does not stop")
        self._judge()

    # ---- inputs

    def _input(self) -> None:
        rng, world = self._rng, self._world
        number, attacker = self._some_attacker()
        before = attacker.answers
        self._log.last = ""
        chunks = self._chunks(attacker)
        for chunk in chunks:
            if not attacker.is_open:
                break
            self._last = chunk
            self.steps.append(Step(number, attacker.port, chunk))
            self.counts["inputs"] += 1
            attacker.send(chunk)
            chance = rng.random()
            world.run(lambda: False, 0 if chance < 0.9 else 15 if chance < 0.98 else 100)
        if rng.random() < 0.03 and attacker.is_open:
            self.steps.append(Step(-number, attacker.port, b""))
            attacker.wire.cut()
        world.run(lambda: False, 2 if rng.random() < 0.998 else rng.choice((500, 3_000, 40_000)))
        self.counts["answers"] += attacker.answers - before
        reported = attacker.reported if attacker.is_open else (self._log.last[:40],)
        if chunks and (reported not in self._seen):
            self._seen.add(reported)
            self._keep(chunks[-1])

    def _keep(self, frame: bytes) -> None:
        if len(frame) > MAX_BYTES:
            return
        if len(self._corpus) < CORPUS:
            self._corpus.append(frame)
        else:
            self._corpus[self._rng.randrange(CORPUS)] = frame

    def _some_attacker(self) -> tuple[int, Attacker]:
        rng, process = self._rng, self._world.process
        assert process is not None
        self._attackers = [one for one in self._attackers if one[1].is_open]
        if len(self._attackers) < ATTACKERS:
            self._opened += 1
            port = PORT if rng.random() < 0.65 else SASL_PORT
            attacker = Attacker(process, port, rng.choice(("a", "bad", "", "ü")), self._known.learn)
            self._attackers.append((self._opened, attacker))
            if port == SASL_PORT:
                self._log_in(attacker)
            return self._attackers[-1]
        return rng.choice(self._attackers)

    def _log_in(self, attacker: Attacker) -> None:
        """Authenticate, half of the time with a change somewhere."""
        rng, world = self._rng, self._world
        mechanism, raw = rng.choice(MECHANISMS), rng.random() < 0.3
        changed = rng.choice((None, None, 0, 1, 2))
        frames = login(mechanism, rng)
        data = handshake(mechanism, 0 if raw else 1)
        try:
            for step in range(4):
                if step == changed:
                    data = mutated(rng, data, self._other())
                self.steps.append(Step(self._opened, attacker.port, data))
                self._last, attacker.token = data, None
                self._keep(data)
                self.counts["inputs"] += 1
                attacker.send(data)
                world.run(lambda: not attacker.is_open or attacker.token is not None, 20)
                if not attacker.is_open or (step and attacker.token is None):
                    return
                data = as_sent(next(frames) if step == 0 else frames.send(attacker.token or b""), raw)
        except StopIteration:
            attacker.is_known, attacker.is_raw = True, False
        except (ValueError, KeyError):
            pass  # the answer was one that no client understands

    def _other(self) -> bytes:
        return self._rng.choice(self._corpus) if self._corpus else b""

    def _fresh(self, attacker: Attacker) -> bytes:
        """A good request."""
        self._correlation += 1
        drawn: Drawn = self._drawing.request()
        return drawn.frame(self._correlation, attacker.client_id)

    def _chunks(self, attacker: Attacker) -> list[bytes]:
        """The chunks that are sent, each at once."""
        rng, chance = self._rng, self._rng.random()
        if chance < 0.2 or not self._corpus:
            return [self._fresh(attacker)]
        some = rng.choice(self._corpus)
        if chance < 0.6:
            return [mutated(rng, some, self._other())]
        if chance < 0.72:  # a repeated request is cached; a nearly equal one is not
            again = [self._counted(some) for _ in range(3)]
            near = bytearray(self._counted(some))
            if len(near) > 12:
                near[rng.randrange(12, len(near))] ^= 1 << rng.randrange(8)
            return [*again, bytes(near), self._counted(some)]
        if chance < 0.82:
            return [b"".join(mutated(rng, one, some) if rng.random() < 0.3 else one for one in self._several(attacker))]
        if chance < 0.9:
            whole = b"".join(self._several(attacker)[:2])
            at = rng.randrange(len(whole) + 1)
            return [whole[:at], whole[at:]] if rng.random() < 0.8 else [whole[:at]]
        if chance < 0.95:
            noise = rng.randbytes(rng.choice((1, 3, 4, 8, 60, 3_000)))
            return [noise if rng.random() < 0.5 else len(noise).to_bytes(4, "big") + noise]
        return [self._counted(some)]

    def _several(self, attacker: Attacker) -> list[bytes]:
        rng = self._rng
        return [self._fresh(attacker) if rng.random() < 0.4 else self._other() for _ in range(rng.choice((2, 3, 8)))]

    def _counted(self, frame: bytes) -> bytes:
        """The frame with a correlation id of its own."""
        self._correlation += 1
        return frame[:8] + self._correlation.to_bytes(4, "big") + frame[12:] if len(frame) > 12 else frame

    # ---- judging

    def _judge(self) -> None:
        """Judge whether that input was harmless."""
        faults = self.faults
        if self._turn_ms > self.slowest_ms:
            self.slowest_ms, self.slowest = self._turn_ms, self._last
        if self._turn_ms > TURN_MS:
            faults.append(f"{SLOW} {self._turn_ms:.0f} ms")
        self._turn_ms = 0.0
        faults += [one.wrong for _, one in self._attackers if one.wrong]
        for reported in (self._log.faults, self._world.faults, self._ledger.faults):
            faults += reported
            reported.clear()
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if peak_mb > _peak_mb[0] + MAX_MEMORY_MB and _peak_mb[0]:
            faults.append(f"one input took {peak_mb - _peak_mb[0]:.0f} MB")
        _peak_mb[0] = max(peak_mb, _peak_mb[0])


_peak_mb = [0.0]
"""The greatest size of the process so far, which never falls."""


def import_all() -> None:
    """Import all modules that a server imports at first need, so that no import counts as an iteration."""
    for module in pkgutil.walk_packages(coordinator.__path__, "muster.coordinator."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for one in kinds():
        one.api.load()


def _where(error: BaseException) -> str:
    """The last lines of code of the error."""
    places, trace = [], error.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{error!r} at {' > '.join(places[-6:])}"
