"""Frames that are recognized by their bytes: two frames that match differ only in their numbers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.api.frame_layout import Run, layout_of, runs_between

CODES = {12: "qi", 8: "q"}
int64, int32 = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)


@st.composite
def frames(draw: st.DrawFn) -> tuple[str, list[bytes], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The struct codes of the frame's numbers, the constant pieces of a frame, header first, and two sets of numbers
    between the pieces.
    """
    code = draw(st.sampled_from(["qi", "q"]))
    count = draw(st.integers(1, 5))
    pieces = [draw(st.binary(min_size=1, max_size=9)) for _ in range(count + 1)]
    numbers = st.tuples(int64, int32) if code == "qi" else st.tuples(int64)
    return code, pieces, *([draw(numbers) for _ in range(count)] for _ in range(2))


def frame_of(code: str, pieces: list[bytes], numbers: list[tuple[int, ...]], correlation: bytes = b"\0\0\0\1") -> bytes:
    out = b"\0\x08\0\x07" + correlation + pieces[0]
    for piece, row in zip(pieces[1:], numbers, strict=True):
        out += struct.pack(f">{code}", *row) + piece
    return out


def runs_of(code: str, pieces: list[bytes]) -> list[Run]:
    size = struct.calcsize(f">{code}")
    at, runs = 8 + len(pieces[0]), []
    for piece in pieces[1:]:
        runs.append((at, code))
        at += size + len(piece)
    return runs


@given(frames(), st.binary(min_size=4, max_size=4), st.binary(max_size=5))
def test_a_frame_that_differs_in_numbers_matches_and_gives_the_numbers(
    drawn: tuple, correlation: bytes, before: bytes
) -> None:
    code, pieces, numbers, others = drawn
    frame = frame_of(code, pieces, numbers)
    layout = layout_of(len(frame), tuple(runs_of(code, pieces)))
    again = frame_of(code, pieces, others, correlation)
    assert layout.size == len(again)
    assert layout.constants(again) == layout.constants(frame)
    parts = layout.unpack(before + again + b"more", len(before))
    step = layout.every
    assert parts[step + 1 :: step] == tuple(row[0] for row in others)
    if code == "qi":
        assert parts[step + 2 :: step] == tuple(row[1] for row in others)


@given(frames(), st.data())
def test_a_frame_with_another_fixed_byte_does_not_match(drawn: tuple, data: st.DataObject) -> None:
    code, pieces, numbers, others = drawn
    frame = frame_of(code, pieces, numbers)
    layout = layout_of(len(frame), tuple(runs_of(code, pieces)))
    again = bytearray(frame_of(code, pieces, others))
    zeros = frame_of(code, [bytes(len(piece)) for piece in pieces], [(0,) * len(code)] * len(others), bytes(4))
    marked = frame_of(code, [b"\xff" * len(piece) for piece in pieces], [(0,) * len(code)] * len(others), bytes(4))
    constant = [*range(4), *(at for at in range(len(again)) if zeros[at] != marked[at])]
    again[data.draw(st.sampled_from(constant))] ^= data.draw(st.integers(1, 255))
    assert layout.constants(bytes(again)) != layout.constants(frame)


@given(frames())
def test_the_variable_bytes_are_found_where_two_encodings_differ(drawn: tuple) -> None:
    code, pieces, numbers, _ = drawn
    low, high = (frame_of(code, pieces, [(n,) * len(code) for _ in numbers]) for n in (0, -1))
    assert runs_between(low, high, CODES) == runs_of(code, pieces)


def test_frames_of_different_kinds_have_no_layout() -> None:
    with pytest.raises(ValueError, match="must all have the same one or two types"):
        layout_of(60, ((10, "qi"), (30, "q")))
    with pytest.raises(ValueError, match="must all have the same one or two types"):
        layout_of(60, ())
    with pytest.raises(ValueError, match="not of one length"):
        runs_between(b"a", b"ab", CODES)
    with pytest.raises(ValueError, match="3 bytes vary at 1"):
        runs_between(b"a\0\0\0b", b"a\xff\xff\xffb", CODES)


def test_connections_share_layouts() -> None:
    assert layout_of(30, ((10, "qi"),)) is layout_of(30, ((10, "qi"),))
