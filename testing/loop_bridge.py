"""The loop bridge is the only way from a test's thread to the event loop of its server. It runs a verb on that loop,
and returns the result.

Verbs run only on the server's event loop, so the server's code need not be thread-safe.

`Lifecycle`: only one thread at a time may start or end a server. Only the process that started a server may end it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from muster.testcontrol.checks import seconds
from muster.testcontrol.errors import CannotBeDone, WaitFailed

__tracebackhide__ = True
"""With this name, pytest shows the line of the test in place of the lines of this module."""

T = TypeVar("T")

PATIENCE_S: Final = 60.0
"""How long a verb without a wait may take. If it takes longer, the server hangs."""
ENDED: Final = "the server was stopped or killed while this waited for it"
FORKED: Final = (
    "this process was forked from the one that has the server: clients can connect to it from here, but only "
    "the process that started it can use its verbs"
)


class LoopBridge:
    """See the module. A bridge is open while the server's event loop runs."""

    def __init__(self, refused: Callable[[Exception], CannotBeDone | None] = lambda _: None) -> None:
        """`refused`: makes the CannotBeDone for a failure of a verb; None: the failure itself is raised."""
        self._refused = refused
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open the bridge: from now on, verbs run on this event loop."""
        self._loop, self._pid = loop, os.getpid()

    def close(self) -> None:
        """Close the bridge, because the event loop ends."""
        self._loop = None

    @property
    def is_open(self) -> bool:
        """Whether the server's event loop runs."""
        return self._loop is not None

    def _send(self, verb: Callable[[], T | Awaitable[T]]) -> concurrent.futures.Future[T]:
        loop = self._loop
        if loop is None:
            raise CannotBeDone("the server does not run")
        if self._pid != os.getpid():
            raise CannotBeDone(FORKED)
        return asyncio.run_coroutine_threadsafe(self._run(verb), loop)

    async def _run(self, verb: Callable[[], T | Awaitable[T]]) -> T:
        try:
            found = verb()
            return await found if inspect.isawaitable(found) else found
        except Exception as failure:
            refused = self._refused(failure)
            if refused is None:
                raise
            raise refused from failure

    def call(self, verb: Callable[[], T | Awaitable[T]], patience_s: float = PATIENCE_S) -> T:
        """Run a verb on the server's event loop; return its result, or raise its exception. `patience_s`: longer than
        any wait in the verb.
        """
        if self._loop is not None and self._loop is asyncio._get_running_loop():
            return _at_once(verb)
        future = self._send(verb)
        try:
            return future.result(patience_s)
        except WaitFailed as failure:
            raise failure.with_traceback(None) from None  # lines of the server do not help the test's author
        except concurrent.futures.CancelledError:
            raise CannotBeDone(ENDED) from None
        except concurrent.futures.TimeoutError:
            if future.done():
                raise  # the verb itself has raised this error
            future.cancel()
            raise CannotBeDone(f"the server has not answered for {patience_s:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def wait(self, verb: Callable[[], T | Awaitable[T]], timeout_s: float) -> T:
        """Like `call`, for a verb that waits up to `timeout_s`. Raises WrongValue. Raises RuntimeError on a thread with
        a running event loop: clients on that loop would be blocked.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self.call(verb, seconds("timeout", timeout_s) + PATIENCE_S)
        raise RuntimeError(
            "this would hold up the event loop, on which your consumers may live: await it (muster.aio.group(…), or "
            "`async with Muster() as muster`)"
        )

    async def awaited(self, verb: Callable[[], T | Awaitable[T]]) -> T:
        """Like `call` and `wait`, for a coroutine of asyncio, or of any other event loop that anyio supports."""
        future = self._send(verb)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # only a program with another event loop than asyncio's has this package
            import anyio.to_thread

            try:
                return await anyio.to_thread.run_sync(future.result, abandon_on_cancel=True)
            except WaitFailed as failure:
                raise failure.with_traceback(None) from None
            except concurrent.futures.CancelledError:
                raise CannotBeDone(ENDED) from None
            except BaseException:
                future.cancel()
                raise
        try:
            return await asyncio.wrap_future(future)
        except WaitFailed as failure:
            raise failure.with_traceback(None) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the test is cancelled, not the verb
            raise CannotBeDone(ENDED) from None


def _at_once(verb: Callable[[], T | Awaitable[T]]) -> T:
    """Run a verb that must not wait, on the server's own event loop, as in a play."""
    found = verb()
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise RuntimeError("this would hold up the event loop of the play: await it (muster.group(…), or `.aio`)")
    return found


def raise_failure(failure: BaseException | None, error: BaseException | None = None) -> None:
    """Raise the exception that test code on the server's event loop has raised; do nothing for None. If the test fails
    with another `error`, add a note to that error instead.
    """
    if failure is None:
        return
    if error is None:
        raise failure
    if error is not failure:
        error.add_note(f"and a function of a rule of faults raised {failure!r}")


class LoopThread:
    """A thread with an event loop of its own. It runs from `start` to `end`."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop], name: str) -> None:
        self._factory = factory
        self._name = name
        self._thread: threading.Thread | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def start(self, begin: Callable[[], object], over: Callable[[], object]) -> asyncio.AbstractEventLoop:
        """Run an event loop until `end`. `begin` and `over` are called in its thread, before and after that."""
        started = threading.Event()

        def run() -> None:
            begin()
            try:
                with asyncio.Runner(loop_factory=self._factory) as runner:
                    loop = self.loop = runner.get_loop()
                    loop.call_soon(started.set)
                    loop.run_forever()
            finally:
                over()

        # a daemon thread, because a test that does not stop its server must not hang at its end
        self._thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._thread.start()
        started.wait()
        assert self.loop is not None
        return self.loop

    def run(self, what: Coroutine[Any, Any, T], patience_s: float = PATIENCE_S) -> T:
        """Run a coroutine on the event loop, and return its result."""
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(patience_s)

    def end(self) -> None:
        """End the event loop and the thread."""
        loop, thread = self.loop, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(PATIENCE_S)
        self.loop = self._thread = None


class Lifecycle:
    """See the module. If several threads start one server at the same time, one starts it and the others wait."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = 0

    @property
    def is_elsewhere(self) -> bool:
        """Whether the server belongs to the process that this one was forked from."""
        return self._pid not in (0, os.getpid())

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A lock, held while the server starts or ends. Raises CannotBeDone in a process that was forked after the
        start.
        """
        # before the lock: in a forked process, a thread that does not exist there may hold it for ever
        if self.is_elsewhere:
            raise CannotBeDone(FORKED)
        with self._lock:
            yield

    def began(self) -> None:
        """Note that the server runs, and belongs to this process."""
        self._pid = os.getpid()

    def ended(self) -> None:
        """Note that the server has stopped."""
        self._pid = 0
