"""The part of the page about transactions, and its lines of the summary. Pure."""

from __future__ import annotations

from typing import Final

from muster.pipeline.report.content import Chosen, Row
from muster.pipeline.report.formatting import plain
from muster.pipeline.report.markup import Column, Columns, Html, listing, section, tag
from muster.pipeline.wording import duration, moment, number, plural

CAUSES: Final = {
    "client": "its producer asked for it",
    "timeout": "open for longer than its timeout",
    "new_producer": "another producer took the id over",
}
_TOPICS_NAMED: Final = 3


def sections(chosen: Chosen) -> Html | None:
    """All of it; None when there was no transaction."""
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


def line(row: Row) -> str:
    """A row of `transaction_ends` for a terminal."""
    took = "" if row["took_ms"] is None else f"{duration(row['took_ms'])} on average"
    return f"{row['transactions']:>7,}  {_ending(row):<48} {took}".rstrip()


def _ending(row: Row) -> str:
    if row["outcome"] is None:
        return "still open"
    why = CAUSES.get(row["cause"] or "", "")
    return f"{row['outcome']}: {why}" if why and row["outcome"] == "aborted" else str(row["outcome"])


def name(row: Row) -> str:
    """A transactional id, or the producer where only that is known."""
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
    Column("transactional id"): name,
    Column("transactions", True): lambda row: number(row["transactions"]),
    Column("aborted", True): lambda row: number(row["aborted"]),
    Column("timed out", True): lambda row: number(row["timed_out"]),
    Column("taken over", True): lambda row: number(row["taken_over"]),
    Column("longest", True): lambda row: duration(row["longest_ms"]),
}
_TRANSACTIONS: Final[Columns] = {
    Column("began (UTC)", is_time=True): lambda row: moment(row["start_ms"]),
    Column("transactional id"): name,
    Column("took", True): lambda row: "still open" if row["took_ms"] is None else duration(row["took_ms"]),
    Column("end"): _ending,
    Column("wrote to"): _wrote,
    Column("offsets of"): _for,
}
