"""The parts of the page about offsets: commits that went backwards, partitions that stand still or lag, and members
that static membership would have spared a rebalance. Pure.
"""

from __future__ import annotations

from typing import Final

from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.formatting import duration, moment, number
from muster.pipeline.report.markup import Column, Html, join, section, table, tag

REGRESSIONS: Final = {
    "reset": "reset by a tool or a new start",
    "rewind": "its consumer went back",
    "zombie": "a member that had lost the partition",
}
STATUSES: Final = {
    "OK": "fine",
    "WARN": "falls behind while it commits",
    "STOP": "commits no more",
    "STALL": "commits the same offset again and again",
    "REWIND": "went backwards",
}


def sections(chosen: Chosen) -> Html:
    """All of them."""
    return join([_offsets(chosen), _static(chosen)])


def _offsets(chosen: Chosen) -> Html:
    return section("Offsets", _regressions(chosen), _stalls(chosen), _lag(chosen), id_="offsets")


def _place(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _none(text: str) -> Html:
    return tag("p", text, class_="dim")


def _regressions(chosen: Chosen) -> Html:
    columns = [Column("when (UTC)"), Column("group"), Column("partition"), Column("from", True), Column("to", True)]
    columns += [Column("back", True), Column("why"), Column("who")]
    rows = (
        (
            moment(row["time_ms"]),
            row["group"],
            _place(row),
            number(row["from_offset"]),
            number(row["to_offset"]),
            number(row["back"]),
            f"{row['cause']}: {REGRESSIONS.get(row['cause'], '')}".removesuffix(": "),
            row["client_id"] or "",
        )
        for row in chosen.regressions.rows
    )
    found = table(columns, rows, chosen.regressions.left) if chosen.regressions.rows else _none("None.")
    return join([tag("h3", "Commits that went backwards"), found])


def _stalls(chosen: Chosen) -> Html:
    columns = [Column("from (UTC)"), Column("for", True), Column("group"), Column("partition"), Column("status")]
    columns += [Column("offsets"), Column("behind", True), Column("who")]
    rows = (
        (
            moment(row["start_ms"]),
            "still" if row["end_ms"] is None else duration(row["end_ms"] - row["start_ms"]),
            row["group"],
            _place(row),
            f"{row['status']}: {STATUSES.get(row['status'], '')}",
            f"{number(row['first_offset'])} → {number(row['last_offset'])}",
            number(row["lag"]),
            row["client_id"] or "",
        )
        for row in chosen.stalls.rows
    )
    found = table(columns, rows, chosen.stalls.left) if chosen.stalls.rows else _none("None.")
    return join([tag("h3", "Partitions that stood still (Burrow's rules)"), found])


def _lag(chosen: Chosen) -> Html:
    if not chosen.about.has_ends:
        return join([tag("h3", "Behind"), _none("Not known: the source has no ends of topics.")])
    columns = [Column("group"), Column("partition"), Column("committed", True), Column("when (UTC)")]
    columns += [Column("end", True), Column("records behind", True), Column("time behind", True), Column("who")]
    rows = (
        (
            row["group"],
            _place(row),
            number(row["committed_offset"]),
            moment(row["committed_ms"]),
            number(row["end_offset"]),
            number(row["lag"]),
            duration(row["behind_ms"]),
            row["client_id"] or "",
        )
        for row in chosen.lag.rows
    )
    found = table(columns, rows, chosen.lag.left) if chosen.lag.rows else _none("Nobody is.")
    return join([tag("h3", "Behind, at the end of the log"), found])


def _static(chosen: Chosen) -> Html | None:
    if not chosen.static_candidates.rows:
        return None
    columns = [Column("group"), Column("client"), Column("came back", True), Column("away (median)", True)]
    columns += [Column("rebalances spared", True), Column("moves spared", True), Column("session timeout needed", True)]
    rows = (
        (
            row["group"],
            f"{row['client_id']} ({(row['host'] or '').removeprefix('/')})",
            number(row["returns"]),
            duration(row["median_absent_ms"]),
            number(row["rebalances_spared"]),
            number(row["moves_spared"]),
            duration(row["session_timeout_ms_needed"]),
        )
        for row in chosen.static_candidates.rows
    )
    about = "Members that go and come back: with a group.instance.id (KIP-345) their groups would not have rebalanced."
    return section(
        "Who should be a static member", _none(about), table(columns, rows, chosen.static_candidates.left), id_="static"
    )
