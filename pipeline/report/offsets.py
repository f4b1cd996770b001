"""The sections of the page about offsets, about members that should be static, and about transactions. Pure."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from muster.pipeline.report.content import Chosen, Row, Some
from muster.pipeline.report.formatting import plain
from muster.pipeline.report.groups import Pages, link, name
from muster.pipeline.report.markup import Column, Columns, Html, Span, join, listing, section, tag
from muster.pipeline.wording import duration, moment, number, plural

REGRESSIONS: Final = {
    "reset": "a tool reset it",
    "deleted": "its offset was deleted or had expired, and it began anew",
    "rewind": "its consumer went back (a rewind)",
    "zombie": "a zombie: a member that had lost the partition still committed",
    "topic_recreated": "its topic was deleted and made again",
    "unknown": "its consumer went back, or a tool reset it: the log does not show which",
    "second_application": "a second application commits under this group id",
}
STATUSES: Final = {
    "OK": "fine",
    "WARN": "falls behind while it commits",
    "STOP": "commits no more",
    "STALL": "commits the same offset again and again",
    "REWIND": "went backwards",
}


def offset_sections(chosen: Chosen, pages: Pages) -> Html:
    """All sections about offsets. `pages`: the page of each group."""
    lag = _listed("Behind, at the end of the log", linked(_LAG, pages), chosen.lag, "Nobody is.")
    if not chosen.about.has_ends:
        lag = join([tag("h3", "Behind"), _none("Not known: the source has no ends of topics.")])
    offsets = section(
        "Offsets",
        _listed("Commits that went backwards", linked(_REGRESSIONS, pages), chosen.regressions),
        _listed("Partitions that stood still, or fell behind", linked(_STALLS, pages), chosen.stalls, id_="stalls"),
        lag,
        id_="offsets",
    )
    return join([offsets, _static(chosen.static_candidates, pages) or ""])


def _none(text: str) -> Html:
    return tag("p", text, class_="dim")


def linked(columns: Columns, pages: Pages) -> Columns:
    """The columns of a table; in the column of groups each name becomes a link."""
    return {
        column: (lambda row: link(row["group"], pages)) if column.title == "group" else cell
        for column, cell in columns.items()
    }


def _listed(title: str, columns: Columns, some: Some, none: str = "None.", id_: str | None = None) -> Html:
    rows = listing(columns, some.rows, some.left, _span) if some.rows else _none(none)
    return join([tag("h3", title, id=id_), rows])


def _span(row: Row) -> Span | None:
    if "start_ms" in row:
        return row["start_ms"], row["end_ms"]
    return (row["time_ms"], row.get("until_ms") or row["time_ms"]) if "time_ms" in row else None


def _static(members: Some, pages: Pages) -> Html | None:
    if not members.rows:
        return None
    about = (
        "A group.instance.id (KIP-345) with such a session timeout spares the rebalances of a restart, and their "
        "partitions wait meanwhile. What-if counts both."
    )
    return section(
        "Members that left and returned",
        _none(about),
        listing(linked(_STATIC, pages), members.rows, members.left),
        id_="static",
    )


def _place(row: Row) -> str:
    return f"{name(row['topic'])}-{row['partition']}"


def _places(row: Row) -> str:
    """The partition of an incident that went back farthest, and the number of the other partitions."""
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
    # the group is at least this far behind: nothing is known about the newest records
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


TRANSACTION_CAUSES: Final = {
    "client": "its producer asked for it",
    "timeout": "open for longer than its timeout",
    "new_producer": "another producer took the id over",
}
_TOPICS_NAMED: Final = 3


def transaction_sections(chosen: Chosen) -> Html | None:
    """The section about transactions; None without transactions."""
    if not chosen.transaction_ends:
        return None
    aborted = chosen.aborted
    return section(
        "Transactions",
        tag(
            "p", "Offsets in a transaction count once it is committed; one that is open holds readers up.", class_="dim"
        ),
        tag("h3", "How they ended"),
        listing(_ENDS, chosen.transaction_ends),
        tag("h3", "By transactional id, the most aborted first"),
        listing(_IDS, chosen.transactional_ids.rows, chosen.transactional_ids.left),
        tag("h3", "The longest"),
        listing(_TRANSACTIONS, chosen.longest.rows),
        [tag("h3", "Aborted, the newest first"), listing(_TRANSACTIONS, aborted.rows, aborted.left)]
        if aborted.rows
        else None,
        id_="transactions",
    )


def transaction_line(row: Row) -> str:
    """A row of `transaction_ends` in words, for a terminal."""
    took = "" if row["took_ms"] is None else f"{duration(row['took_ms'])} on average"
    return f"{row['transactions']:>7,}  {_ending(row):<48} {took}".rstrip()


def _ending(row: Row) -> str:
    if row["outcome"] is None:
        return "still open"
    why = TRANSACTION_CAUSES.get(row["cause"] or "", "")
    return f"{row['outcome']}: {why}" if why and row["outcome"] == "aborted" else str(row["outcome"])


def transaction_name(row: Row) -> str:
    """The transactional id, or the producer if only that is known."""
    known = row["transactional_id"]
    return f"(producer {row['producer_id']})" if known is None else known


def _wrote(row: Row) -> str | None:
    if row["topics"] is None:
        return None
    topics = [one["topic"] for one in row["topics"] if one["topic"] != "__consumer_offsets"]
    more = len(topics) - _TOPICS_NAMED
    named = ", ".join(topics[:_TOPICS_NAMED]) + (f", {plural(more, 'more topic')}" if more > 0 else "")
    return f"{plural(row['partitions'], 'partition')}{f': {named}' if named else ''}"


def _for(row: Row) -> str | None:
    groups = row["groups"]
    if not groups:
        return None
    offsets = "" if row["offsets"] is None else f" ({plural(row['offsets'], 'offset')})"
    return f"{', '.join(plain(group) for group in groups)}{offsets}"


_ENDS: Final[Columns] = {
    Column("end"): _ending,
    Column("transactions", True): lambda row: number(row["transactions"]),
    Column("took on average", True): lambda row: duration(row["took_ms"]),
    Column("longest", True): lambda row: duration(row["longest_ms"]),
}
_IDS: Final[Columns] = {
    Column("transactional id"): transaction_name,
    Column("transactions", True): lambda row: number(row["transactions"]),
    Column("aborted", True): lambda row: number(row["aborted"]),
    Column("timed out", True): lambda row: number(row["timed_out"]),
    Column("taken over", True): lambda row: number(row["taken_over"]),
    Column("longest", True): lambda row: duration(row["longest_ms"]),
}
_TRANSACTIONS: Final[Columns] = {
    Column("began (UTC)", is_time=True): lambda row: moment(row["start_ms"]),
    Column("transactional id"): transaction_name,
    Column("took", True): lambda row: "still open" if row["took_ms"] is None else duration(row["took_ms"]),
    Column("end"): _ending,
    Column("wrote to"): _wrote,
    Column("offsets of"): _for,
}
