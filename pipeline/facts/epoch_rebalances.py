"""The rebalances of KIP-848 groups: each new epoch with its cause, by `epoch_causes`, group by group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.commit_activity import activity
from muster.pipeline.facts.epoch_causes import Epoch, Raised, raised
from muster.pipeline.facts.epoch_values import Change, Gone, Member, Share
from muster.pipeline.facts.infer_departures import EXPIRED
from muster.pipeline.facts.infer_evidence import Activity
from muster.pipeline.facts.inferred_rebalances import INFERRED, triggered_by
from muster.pipeline.facts.inputs import HOLDER
from muster.pipeline.tables import by_group


def epoch_rebalances(epochs: DataFrame, states: DataFrame, walk: DataFrame) -> DataFrame:
    """Rows of INFERRED. `epochs`: rows of EPOCHS, `states`: of `inputs.states`, `walk`: of
    `commit_walk.walked`, of those of `commits.placed`."""
    numbers = states.where("is_epoch").select("group", "log_offset", "state")
    columns = ("group", "state", "is_tombstone", "generation", "state_timestamp_ms", "at_ms", "members", "change")
    rows = epochs.join(numbers, ["group", "log_offset"]).select(*columns)
    rows = rows.join(activity(walk), ["group", "state"], "left")
    return by_group(rows, "state", _judge, INFERRED)


def without_conversions(inferred: DataFrame, states: DataFrame) -> DataFrame:
    """Rows of INFERRED, without those of KIP-848 groups that became classic: they go on in their generation."""
    in_order = Window.partitionBy("group").orderBy("state")
    before = {name: F.lag(name).over(in_order) for name in ("is_epoch", "is_tombstone", "at_ms")}
    rows = states.withColumns({f"was_{name}": column for name, column in before.items()})
    made = rows.where("was_is_epoch and was_is_tombstone and was_at_ms = at_ms and not is_epoch and not is_tombstone")
    return inferred.join(
        made.select("group", "generation", F.col("at_ms").alias("end_ms")),
        ["group", "generation", "end_ms"],
        "left_anti",
    ).select(*inferred.columns)


def _judge(group: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    return (row_of(group, one) for one in raised(map(epoch_of, rows)))


def epoch_of(row: Mapping[str, Any]) -> Epoch | None:
    """A row as it is judged; None: a tombstone."""
    if row["is_tombstone"]:
        return None
    return Epoch(
        row["generation"],
        row["state_timestamp_ms"],
        row["at_ms"],
        tuple(map(_member, row["members"])),
        None if row["change"] is None else _change(row["change"]),
        {one.pop("member_id"): Activity(**one) for one in row["activity"] or ()},
    )


def _member(row: Mapping[str, Any]) -> Member:
    shares = tuple(Share(one["topic"], tuple(one["partitions"])) for one in row["assigned"] or ())
    return Member(**{**row, "topics": tuple(row["topics"] or ()), "assigned": shares})


def _change(row: Mapping[str, Any]) -> Change:
    gone = tuple(Gone(**{**one, "member": _member(one["member"])}) for one in row["gone"])
    return Change(**{**row, "joined": tuple(row["joined"]), "gone": gone, "resubscribed": tuple(row["resubscribed"])})


def row_of(group: str, one: Raised) -> dict[str, Any]:
    """A row of INFERRED. There are no phases, and `is_cooperative` is null: each member goes on by itself."""
    epoch, change = one.epoch, one.change
    is_known = change.before is not None
    return {
        "group": group,
        "generation": epoch.number,
        "before_generation": change.before,
        "start_ms": epoch.began_ms,
        "end_ms": epoch.at_ms,
        "cause": one.cause,
        **triggered_by(one.trigger),
        "took_ms": epoch.at_ms - epoch.began_ms,
        "members_before": change.members_before if is_known else None,
        "members_after": len(epoch.members),
        "members_joined": len(change.joined) if is_known else None,
        "members_left": len(change.gone) if is_known else None,
        "failed_attempts": epoch.number - change.before - 1 if change.before is not None else None,
        "confidence": one.certainty,
        "start_earliest_ms": epoch.began_ms,
        "start_latest_ms": epoch.began_ms,
        **(_members_of(one) if is_known else {}),
        "gone": [{"member_id": gone.member_id, "end_cause": gone.how, "end_ms": gone.at_ms} for gone in one.ended],
    }


def _members_of(one: Raised) -> dict[str, Any]:
    """Who came, who left, and who died, with what that cost before anybody noticed."""
    there = {member.member_id: member.client_id for member in one.epoch.members}
    died = [
        {
            **{name: getattr(gone.member, name) for name in HOLDER},
            "last_ms": gone.heard_ms,
            "end_ms": gone.at_ms,
            "partitions": sum(len(share.partitions) for share in gone.member.assigned),
        }
        for gone in one.departed
        if gone.how == EXPIRED
    ]
    return {
        "came": [there.get(member_id) for member_id in one.change.joined],
        "went": [gone.member.client_id for gone in one.departed if gone.how != EXPIRED],
        "died": died,
        "silent_from_ms": min((each["last_ms"] for each in died), default=None),
        "silent_partition_ms": sum(each["partitions"] * max(each["end_ms"] - each["last_ms"], 0) for each in died),
    }
