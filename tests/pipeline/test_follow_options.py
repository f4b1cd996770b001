from __future__ import annotations

import argparse

import pytest

from muster.pipeline.arguments import BadArgument, Follow, add_options, read

LIVE = ("--bootstrap-server", "one:9092")


def given(*arguments: str) -> Follow | None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return read(parser.parse_args(arguments)).follow


def test_the_options_of_follow_are_read() -> None:
    week_ms = 7 * 24 * 3_600_000
    assert given(*LIVE) is None
    assert given(*LIVE, "--follow") == Follow(10_000, False, week_ms, 6, "parquet")
    assert given(
        *LIVE,
        "--follow",
        "--trigger",
        "500ms",
        "--once",
        "--keep",
        "36h",
        "--page-every",
        "2",
        "--table-format",
        "delta",
    ) == Follow(500, True, 36 * 3_600_000, 2, "delta")
    assert given(*LIVE, "--follow", "--keep", "all", "--format", "parquet") == Follow(10_000, False, None, 0, "parquet")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("muster-data", "--follow"), "--follow muster-data: a live cluster is followed: give --bootstrap-server"),
        ((*LIVE, "--once"), "--once goes with --follow"),
        ((*LIVE, "--page-every", "3"), "--page-every goes with --follow"),
        ((*LIVE, "--follow", "--until", "2026-01-31T08:00"), "leave --until 2026-01-31T08:00 out"),
        ((*LIVE, "--follow", "--format", "html,csv"), "--format html,csv: --follow writes html and parquet"),
        ((*LIVE, "--follow", "--what-if", "static"), "--what-if static: --follow shows only what happened"),
        ((*LIVE, "--follow", "--trigger", "10"), "--trigger 10: a time such as 500ms, 10s, 36h or 7d was expected"),
        ((*LIVE, "--follow", "--keep", "0d"), "--keep 0d: a time such as"),
        ((*LIVE, "--follow", "--page-every", "0"), "--page-every 0: expected 1 or more"),
    ],
)
def test_senseless_options_of_follow_are_refused(arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(BadArgument, match=sentence):
        given(*arguments)
