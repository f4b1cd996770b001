"""A thread writes the lines: in order, bounded, and nobody waits for a reader that does not read."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from muster.coordinator.system.logging import writer as writer_module
from muster.coordinator.system.logging.writer import MAX_BYTES, MAX_LINES, LineWriter, write_all, writer


class Pipe:
    """A pipe that is read when the test says so."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()

    def read_until_closed(self) -> bytes:
        parts = []
        while part := os.read(self.read_end, 1 << 16):
            parts.append(part)
        return b"".join(parts)

    def end(self) -> None:
        """Write nothing more."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def hang_up(self) -> None:
        """Read nothing more: the writer gets an error."""
        if self.read_end >= 0:
            os.close(self.read_end)
            self.read_end = -1

    def close(self) -> None:
        self.end()
        self.hang_up()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


class Reading(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self.pipe = pipe
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        self.lines = self.pipe.read_until_closed().decode().splitlines()


def to(pipe: Pipe) -> Callable[[bytes], object]:
    return lambda data: write_all(pipe.write_end, data)


def test_all_lines_are_written_in_their_order(pipe: Pipe) -> None:
    out = LineWriter(to(pipe))
    for number in range(5_000):
        out.put(f"line {number}")
    reading = Reading(pipe)
    assert out.close(60)
    pipe.end()
    reading.join()
    assert reading.lines == [f"line {number}" for number in range(5_000)]


def test_an_unread_pipe_blocks_nobody_and_lost_lines_are_counted(pipe: Pipe) -> None:
    reported: list[int] = []

    def lost(count: int) -> None:
        reported.append(count)
        out.put(f"{count} were lost")

    out = LineWriter(to(pipe), lost)
    for number in range(3 * MAX_LINES):
        out.put(f"line {number}")
    for number in range(100):
        out.put(f"{number}" * 20_000)
    assert not out.close(0)  # and the end of the process does not wait for ever
    assert reported == []
    reading = Reading(pipe)
    thread = out._thread
    assert thread is not None
    thread.join(60)
    pipe.end()
    reading.join()
    assert MAX_LINES <= len(reading.lines) < 3 * MAX_LINES + 100
    assert reading.lines[:MAX_LINES] == [f"line {number}" for number in range(MAX_LINES)]
    assert sum(reported) == 3 * MAX_LINES + 100 - len(reading.lines)


def test_waiting_lines_are_bounded_in_bytes(pipe: Pipe) -> None:
    out = LineWriter(to(pipe))
    for _ in range(100):
        out.put("x" * (MAX_BYTES // 4))
    assert out._bytes <= MAX_BYTES
    assert not out.close(0)
    # otherwise its thread would continue to write to the next file with the same number
    pipe.hang_up()
    thread = out._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()


def test_a_single_line_of_any_length_is_written(pipe: Pipe) -> None:
    out = LineWriter(to(pipe))
    reading = Reading(pipe)
    out.put("x" * 2 * MAX_BYTES)
    assert out.close(60)
    pipe.end()
    reading.join()
    assert [len(line) for line in reading.lines] == [2 * MAX_BYTES]


def test_lines_are_accepted_again_after_a_loss(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_LINES", 2)
    gate, began, known = threading.Event(), threading.Event(), threading.Event()
    written: list[bytes] = []

    def write(data: bytes) -> None:
        began.set()
        assert gate.wait(60)
        written.append(data)

    def lost(count: int) -> None:
        out.put(f"lost {count}")
        known.set()

    out = LineWriter(write, lost)
    out.put("a")
    assert began.wait(60)
    for line in "bcdef":
        out.put(line)
    gate.set()
    assert known.wait(60)
    out.put("g")
    assert out.close(60)
    assert b"".join(written).split() == [b"a", b"b", b"c", b"lost", b"3", b"g"]


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(9, "Bad file descriptor"), ValueError("closed")])
def test_a_closed_stream_does_not_stop_the_writer(error: Exception) -> None:
    calls = []

    def write(data: bytes) -> None:
        calls.append(data)
        raise error

    out = LineWriter(write)
    out.put("a")
    assert out.close(60)
    out.put("b")
    assert out.close(60)
    assert calls == [b"a\n"]


def test_a_writer_without_lines_starts_no_thread() -> None:
    out = LineWriter(writer(None))
    assert out._thread is None
    assert out.close()


def test_the_writer_accepts_streams_in_memory_and_none() -> None:
    stream = io.StringIO()
    writer(stream)("é\n".encode())
    assert stream.getvalue() == "é\n"
    writer(None)(b"nobody")


def test_a_nonblocking_pipe_is_waited_for(pipe: Pipe) -> None:
    os.set_blocking(pipe.write_end, False)
    out = LineWriter(to(pipe))
    lines = ["x" * 1_000] * 500  # more than a pipe holds
    for line in lines:
        out.put(line)
    assert not out.close(0)
    reading = Reading(pipe)
    thread = out._thread
    assert thread is not None
    thread.join(60)
    pipe.end()
    reading.join()
    assert reading.lines == lines


def test_the_writer_thread_calls_its_timer_as_often_as_asked() -> None:
    ticks: list[float | None] = [0.001, 0.001, None]
    over = threading.Event()

    def tick() -> float | None:
        wait_s = ticks.pop(0) if ticks else None
        if not ticks:
            over.set()
        return wait_s

    out = LineWriter(lambda _: None, tick=tick)
    out.put("a")
    assert over.wait(60)
    assert out.close(60)
