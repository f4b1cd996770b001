"""The parts of the page about offsets, and about members that should be static. Pure."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from muster.pipeline.report.content import Chosen, Row, Some
from muster.pipeline.report.groups import Pages, link, name
from muster.pipeline.report.markup import Column, Columns, Html, join, listing, section, tag
from muster.pipeline.wording import duration, moment, number

REGRESSIONS: Final = {
    "reset": "a tool reset it",
    "deleted": "its offset was deleted or had expired, and it began anew",
    "rewind": "its consumer went back (a rewind)",
    "zombie": "a zombie: a member that had lost the partition still committed",
    "topic_recreated": "its topic was deleted and made again",
    "unknown": "its consumer went back, or a tool reset it: the log does not tell",
    "second_application": "a second application commits under this group id",
}
STATUSES: Final = {
    "OK": "fine",
    "WARN": "falls behind while it commits",
    "STOP": "commits no more",
    "STALL": "commits the same offset again and again",
    "REWIND": "went backwards",
}


def sections(chosen: Chosen, pages: Pages) -> Html:
    """All of them. `pages`: where groups are told of."""
    lag = _listed("Behind, at the end of the log", _linked(_LAG, pages), chosen.lag, "Nobody is.")
    if not chosen.about.has_ends:
        lag = join([tag("h3", "Behind"), _none("Not known: the source has no ends of topics.")])
    offsets = section(
        "Offsets",
        _listed("Commits that went backwards", _linked(_REGRESSIONS, pages), chosen.regressions),
        _listed("Partitions that stood still, or fell behind", _linked(_STALLS, pages), chosen.stalls, id_="stalls"),
        lag,
        id_="offsets",
    )
    return join([offsets, _static(chosen.static_candidates, pages) or ""])


def _none(text: str) -> Html:
    return tag("p", text, class_="dim")


def _linked(columns: Columns, pages: Pages) -> Columns:
    """The columns, with links in the one of groups."""
    return {
        column: (lambda row: link(row["group"], pages)) if column.title == "group" else cell
        for column, cell in columns.items()
    }


def _listed(title: str, columns: Columns, some: Some, none: str = "None.", id_: str | None = None) -> Html:
    return join([tag("h3", title, id=id_), listing(columns, some.rows, some.left) if some.rows else _none(none)])


def _static(members: Some, pages: Pages) -> Html | None:
    if not members.rows:
        return None
    about = (
        "A group.instance.id (KIP-345) with such a session timeout spares the rebalances of a restart, and their "
        "partitions wait meanwhile. What-if counts both."
    )
    return section(
        "Members that went and came back",
        _none(about),
        listing(_linked(_STATIC, pages), members.rows, members.left),
        id_="static",
    )


def _place(row: Row) -> str:
    return f"{name(row['topic'])}-{row['partition']}"


def _places(row: Row) -> str:
    """The partition of a happening that went farthest back, and how many more are in it."""
    more = len(row.get("partitions") or ()) - 1
    return _place(row) + (f" and {more:,} more" if more > 0 else "")


def _who(row: Row) -> str:
    return name(row["client_id"] or "")


_REGRESSIONS: Final[Columns] = {
    Column("when (UTC)", is_time=True): lambda row: moment(row["time_ms"]),
    Column("group", is_head=True): itemgetter("group"),
    Column("partition", is_name=True): _places,
    Column("from", True): lambda row: number(row["from_offset"]),
    Column("to", True): lambda row: number(row["to_offset"]),
    Column("back", True): lambda row: number(row["back"]),
    Column("why"): lambda row: REGRESSIONS.get(row["cause"], row["cause"]),
    Column("who", is_name=True): _who,
}
_STALLS: Final[Columns] = {
    Column("from (UTC)", is_time=True): lambda row: moment(row["start_ms"]),
    Column("for", True): lambda row: "still" if row["end_ms"] is None else duration(row["end_ms"] - row["start_ms"]),
    Column("group", is_head=True): itemgetter("group"),
    Column("partition", is_name=True): _place,
    Column("status"): lambda row: f"{row['status']}: {STATUSES.get(row['status'], '')}",
    Column("offsets"): lambda row: f"{number(row['first_offset'])} → {number(row['last_offset'])}",
    Column("behind", True): lambda row: number(row["lag"]),
    Column("who", is_name=True): _who,
}
_LAG: Final[Columns] = {
    Column("group", is_head=True): itemgetter("group"),
    Column("partition", is_name=True): _place,
    Column("committed", True): lambda row: number(row["committed_offset"]),
    Column("when (UTC)", is_time=True): lambda row: moment(row["committed_ms"]),
    Column("end", True): lambda row: number(row["end_offset"]),
    Column("records behind", True): lambda row: number(row["lag"]),
    # it is so long at least: of what has just been written nothing is known
    Column("time behind", True): lambda row: duration(row["behind_ms"] or None),
    Column("who", is_name=True): _who,
}
_STATIC: Final[Columns] = {
    Column("group", is_head=True): itemgetter("group"),
    Column("client", is_name=True): lambda row: (
        f"{name(row['client_id'] or '')} ({(row['host'] or '').removeprefix('/')})"
    ),
    Column("came back", True): lambda row: number(row["returns"]),
    Column("away (median)", True): lambda row: duration(row["median_absent_ms"]),
    Column("session timeout needed", True): lambda row: duration(row["session_timeout_ms_needed"]),
}
