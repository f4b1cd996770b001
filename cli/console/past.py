"""The rebalances of the past, from the tables of `muster analyze`, also with `--follow`. They need pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from muster.coordinator.history.words import phrase, plural, seconds, who
from muster.coordinator.http.console.sources import StoredEvent

EXTRA: Final = "pip install 'muster-kafka[explain]'"


class PastRebalances:
    """The table `rebalances` in a folder. It is read again for each question: a follower writes it again and again."""

    def __init__(self, folder: Path) -> None:
        """`folder`: the --out of `muster analyze`."""
        self._folder = folder

    @property
    def table(self) -> Path:
        """The folder of the table."""
        return self._folder / "tables" / "rebalances"

    def missing(self) -> str | None:
        """Why the table cannot be read; None: it can."""
        try:
            import pyarrow.parquet  # noqa: F401  # not in every installation
        except ImportError:
            return f"--tables needs pyarrow: {EXTRA}"
        return None if self.table.exists() else f"--tables {self._folder}: there is no {self.table}"

    def of(self, group: str, from_ms: int, until_ms: int) -> list[StoredEvent]:
        """The rebalances of a group that ended in a time, in their order."""
        from pyarrow import parquet

        wanted = [("group", "=", group), ("end_ms", ">=", from_ms), ("end_ms", "<=", until_ms)]
        rows = parquet.read_table(self.table, filters=wanted).to_pylist()
        rows.sort(key=lambda row: (row["end_ms"], row["generation"] or 0))
        return [_event(group, number, row) for number, row in enumerate(rows)]


def _event(group: str, number: int, row: Mapping[str, Any]) -> StoredEvent:
    trigger = None
    if row["trigger_member_id"] is not None:
        trigger = {
            "member": row["trigger_member_id"],
            "instance": row["trigger_instance_id"],
            "client_id": row["trigger_client_id"],
            "host": row["trigger_host"],
            "reason": row["reason"],
        }
    cause = "its cause is not known"
    if row["cause"] is not None:
        cause = phrase(row["cause"], "a member" if trigger is None else who(trigger))
    took_ms = row["took_ms"]
    took = "" if took_ms is None else f", {seconds(took_ms)}"
    text = f"rebalance to {row['generation']}{took}: {cause}; {plural(row['members_after'] or 0, 'member')}"
    facts = {
        "generation": row["generation"],
        "cause": row["cause"],
        "trigger": trigger,
        "took_ms": took_ms,
        "join_phase_ms": row["join_phase_ms"],
        "sync_phase_ms": row["sync_phase_ms"],
        "members": [],
        "certainty": row["confidence"],
        "inferred": True,
        "sentence": text,
    }
    value = {"v": 1, "kind": "rebalance_completed", "group": group, "time": row["end_ms"], **facts}
    return StoredEvent(f"table:{row['end_ms']}:{number}", value)
