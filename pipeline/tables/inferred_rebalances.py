"""Rebalances inferred from the offsets log. Spark makes small rows of states.

Then `infer.history` judges the generations of classic groups, and `infer.epoch_causes` the epochs of KIP-848 groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from muster.pipeline.defaults import EPOCH_SESSION_MS, REBALANCE_TIMEOUT_MS
from muster.pipeline.frames import DataFrame, F, Window, from_arrow_type
from muster.pipeline.infer import epoch_image
from muster.pipeline.infer.departures import EXPIRED, REPLACED, Gone
from muster.pipeline.infer.epoch_causes import Epoch, Raised, raised
from muster.pipeline.infer.epoch_image import Change, Share
from muster.pipeline.infer.evidence import Activity, Member, State, taken_over
from muster.pipeline.infer.history import Rebalance, rebalances
from muster.pipeline.infer.silenced import Span
from muster.pipeline.infer.start import last_life_ms
from muster.pipeline.schema import PARTITIONS, columns, structs
from muster.pipeline.tables import by_group
from muster.pipeline.tables.commit_activity import activity
from muster.pipeline.tables.epoch_states import SHARE
from muster.pipeline.tables.inputs import HOLDER, Inputs, states
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.tables.silences import silences_in, with_silences

Row = Mapping[str, Any]

_NOT_INFERRED: Final = (
    *("reason", "kept", "moved", "gained", "lost", "paused_partition_ms", "source", "took_least_ms", "took_most_ms"),
)
INFERRED_REBALANCE: Final = pa.schema(
    [
        *(field for field in TABLES["rebalances"] if field.name not in _NOT_INFERRED),
        *columns("leader string, is_cooperative boolean"),
        ("gone", structs("member_id string, end_cause string, end_ms long")),
    ]
)
"""An inferred rebalance. `gone` has the missing members, and how the time of each one ended."""


def inferred(inputs: Inputs, walk: DataFrame, silences: DataFrame) -> DataFrame:
    """Rows of INFERRED_REBALANCE. `walk`: rows of `commits.walked`, made from rows of `commits.placed`.

    `silences`: the table `silences`.
    """
    # a state is judged by the states just before it
    rows = with_silences(_summaries(inputs, walk), silences)
    return by_group(rows, "state", _infer, INFERRED_REBALANCE)


def _summaries(inputs: Inputs, walk: DataFrame) -> DataFrame:
    known = states(inputs)
    # of a KIP-848 group, only the last epoch before it becomes a classic group is needed
    next_but_one = Window.partitionBy("group").orderBy("state")
    goes_on = ~F.lead("is_epoch", 2).over(next_but_one) & F.lead("is_tombstone", 1).over(next_but_one)
    goes_on &= F.col("is_epoch") & F.lead("is_epoch", 1).over(next_but_one)
    goes_on &= F.lead("generation", 2).over(next_but_one) == F.col("generation")
    known = known.withColumn("goes_on", F.coalesce(goes_on, F.lit(False))).where("goes_on or not is_epoch")
    members = F.transform(
        "members",
        lambda one: F.struct(
            *(one[name].alias(name) for name in HOLDER),
            F.coalesce(one["session_timeout_ms"], F.lit(EPOCH_SESSION_MS)).alias("session_timeout_ms"),
            F.coalesce(one["rebalance_timeout_ms"], F.lit(REBALANCE_TIMEOUT_MS)).alias("rebalance_timeout_ms"),
            F.when(one.topics.isNotNull(), F.xxhash64(F.array_sort(one.topics))).alias("topics"),
            _count(one.owned).alias("owned"),
            _count(one.assigned).alias("assigned"),
            one.metadata.alias("metadata"),
        ),
    )
    empty = F.array().cast("array<string>")
    topics = F.array_distinct(F.flatten(F.transform("members", lambda one: F.coalesce(one.topics, empty))))
    no_shares = F.array().cast(from_arrow_type(PARTITIONS))
    shares = F.transform(
        F.flatten(F.transform("members", lambda one: F.coalesce(one.assigned, no_shares))),
        lambda share: F.struct(share.topic.alias("topic"), F.size(share.partitions).alias("count")),
    )
    small = known.select(
        *("group", "state", "is_epoch", "is_tombstone", "generation", "at_ms"),
        F.coalesce("state_timestamp_ms", "at_ms").alias("joined_ms"),
        "protocol",
        "leader",
        topics.alias("topics"),
        shares.alias("shares"),
        members.alias("members"),
    )
    return small.join(activity(walk), ["group", "state"], "left")


def _count(shares: Any) -> Any:
    return F.coalesce(F.aggregate(shares, F.lit(0), lambda total, share: total + F.size(share.partitions)), F.lit(0))


def _infer(group: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    silences, every = _silences_of(rows)
    found = rebalances(_generations(every), silences)
    # the record that made a KIP-848 group a classic one has the same generation, so it is no rebalance
    return (generation_row(group, one) for one in found if one.after.ends_ms is None)


def _silences_of(rows: Iterable[Row]) -> tuple[list[Span], Iterable[Row]]:
    """The silences, which each row has, and all rows."""
    rest = iter(rows)
    first = next(rest)
    known = [Span(one.from_ms, one.until_ms, one.is_frozen) for one in silences_in(first)]
    return known, chain([first], rest)


def _generations(rows: Iterable[Row]) -> Iterator[State | None]:
    """The states of a classic group. If the group was a KIP-848 group before, the first state is its last epoch."""
    epoch: State | None = None
    for row in rows:
        state = state_of(row)
        if row["is_epoch"]:
            epoch = state
            continue
        yield state if state is None or epoch is None else taken_over(epoch, state)
        epoch = None


def state_of(row: Row) -> State | None:
    """A row of `_summaries` as a state for the inference; None: a tombstone."""
    if row["is_tombstone"]:
        return None
    counts: dict[str, int] = {}
    for share in row["shares"] or ():
        counts[share["topic"]] = counts.get(share["topic"], 0) + share["count"]
    return State(
        row["generation"],
        row["at_ms"],
        min(row["joined_ms"], row["at_ms"]),
        row["protocol"],
        row["leader"],
        tuple(Member(**member) for member in row["members"] or ()),
        frozenset(row["topics"] or ()),
        counts,
        {one.pop("member_id"): Activity(**one) for one in row["activity"] or ()},
    )


def triggered_by(member: Member | epoch_image.Member | None) -> dict[str, Any]:
    """The columns of INFERRED_REBALANCE about the member that caused the rebalance."""
    return {f"trigger_{name}": None if member is None else getattr(member, name) for name in HOLDER}


def generation_row(group: str, one: Rebalance) -> dict[str, Any]:
    """A row of INFERRED_REBALANCE."""
    before, after, verdict, start = one
    # nobody knows when the rebalance of the first record began, or whether the record was written at its end. A record
    # is written again for a static member that returns under another id
    is_known = before is not None
    began_ms = after.at_ms if not is_known else after.joined_ms if start is None else start.likely_ms
    left = [gone for gone in verdict.gone if gone.how != REPLACED]
    return {
        "group": group,
        "generation": after.generation,
        "before_generation": None if before is None else before.generation,
        "leader": after.leader,
        "start_ms": began_ms,
        "end_ms": after.at_ms,
        "cause": verdict.cause,
        **triggered_by(verdict.trigger),
        "join_phase_ms": after.joined_ms - began_ms if is_known else None,
        "sync_phase_ms": after.at_ms - after.joined_ms if is_known else None,
        "took_ms": after.at_ms - began_ms if is_known else None,
        "members_before": None if before is None else len(before.members),
        "members_after": len(after.members),
        "members_joined": None if before is None else len(verdict.joined),
        "members_left": None if before is None else len(left),
        "failed_attempts": None if before is None else after.generation - before.generation - 1,
        "is_cooperative": after.is_cooperative if after.members or before is None else before.is_cooperative,
        "confidence": verdict.certainty,
        "start_earliest_ms": start and start.earliest_ms,
        "start_latest_ms": start and start.latest_ms,
        "came": None if before is None else [member.client_id for member in verdict.joined],
        "went": None if before is None else [gone.member.client_id for gone in left if gone.how != EXPIRED],
        **_deaths(one, began_ms),
        "gone": [
            {"member_id": gone.member.member_id, "end_cause": gone.how, "end_ms": _ended_ms(one, gone, began_ms)}
            for gone in verdict.gone
        ],
    }


def _ended_ms(one: Rebalance, gone: Gone, began_ms: int) -> int | None:
    """When the member was removed or left, as its commits show.

    The time is within the rebalance: not before its start, and not after the join phase.
    """
    if gone.how == REPLACED or (gone.when_ms is None and gone.how != EXPIRED):
        return gone.when_ms
    since_ms = began_ms if gone.how == EXPIRED or one.start is None else one.start.earliest_ms
    return min(max(gone.when_ms or since_ms, since_ms), max(one.after.joined_ms, since_ms))


def _heard_ms(before: State, gone: Gone, end_ms: int) -> int:
    """The last sign of life of a dead member: a commit, or the heartbeat with which its last session began.

    When the coordinator is back after it was away, new sessions begin. Then only a commit counts.
    """
    known_ms = last_life_ms(before, gone.member)
    return known_ms if gone.while_away else max(known_ms, end_ms - gone.member.session_timeout_ms)


def _deaths(one: Rebalance, began_ms: int) -> dict[str, Any]:
    """The dead members, and the cost of each death before anybody noticed it.

    The partitions of a dead member are unread since its last sign of life.
    """
    before = one.before
    if before is None:
        return {}
    dead = [gone for gone in one.verdict.gone if gone.how == EXPIRED]
    ends = [_ended_ms(one, gone, began_ms) or began_ms for gone in dead]
    died = [
        {
            **{name: getattr(gone.member, name) for name in HOLDER},
            "last_ms": _heard_ms(before, gone, end_ms),
            "end_ms": end_ms,
            "partitions": gone.member.assigned,
        }
        for gone, end_ms in zip(dead, ends, strict=True)
    ]
    silent_ms = sum(each["partitions"] * max(began_ms - each["last_ms"], 0) for each in died)
    return {
        "died": died,
        "silent_from_ms": min((each["last_ms"] for each in died), default=None),
        "silent_partition_ms": silent_ms,
    }


def epoch_rebalances(epochs: DataFrame, states: DataFrame, walk: DataFrame, silences: DataFrame) -> DataFrame:
    """Rows of INFERRED_REBALANCE for KIP-848 groups and share groups.

    `epochs`: rows of EPOCHS. `states`: rows of `inputs.states`. `walk`: rows of `commits.walked`, made from rows of
    `commits.placed`.
    """
    numbers = states.where("is_epoch").select("group", "log_offset", "state")
    columns = ("group", "state", "is_tombstone", "protocol_type", "generation", "state_timestamp_ms", "at_ms")
    rows = epochs.join(numbers, ["group", "log_offset"]).select(*columns, "members", "change", "takes")
    rows = with_silences(rows.join(activity(walk), ["group", "state"], "left"), silences)
    return by_group(rows, "state", _infer_epochs, INFERRED_REBALANCE)


def without_conversions(inferred: DataFrame, states: DataFrame) -> DataFrame:
    """Rows of INFERRED_REBALANCE without those by which KIP-848 groups became classic: their generation continues."""
    in_order = Window.partitionBy("group").orderBy("state")
    before = {name: F.lag(name).over(in_order) for name in ("is_epoch", "is_tombstone", "at_ms")}
    rows = states.withColumns({f"was_{name}": column for name, column in before.items()})
    made = rows.where("was_is_epoch and was_is_tombstone and was_at_ms = at_ms and not is_epoch and not is_tombstone")
    return inferred.join(
        made.select("group", "generation", F.col("at_ms").alias("end_ms")),
        ["group", "generation", "end_ms"],
        "left_anti",
    ).select(*inferred.columns)


def _infer_epochs(group: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    silences, every = _silences_of(rows)
    for protocol_type, some in groupby(every, itemgetter("protocol_type")):
        for one in raised(map(epoch_of, some), silences, commits=protocol_type != SHARE):
            found = epoch_row(group, one)
            # other members of a share group have the same partitions
            yield found if protocol_type != SHARE else found | {"silent_from_ms": None, "silent_partition_ms": None}


def epoch_of(row: Mapping[str, Any]) -> Epoch | None:
    """A row as an epoch for the inference; None: a tombstone."""
    if row["is_tombstone"]:
        return None
    return Epoch(
        row["generation"],
        row["state_timestamp_ms"],
        row["at_ms"],
        tuple(map(_member, row["members"])),
        None if row["change"] is None else _change(row["change"]),
        {one.pop("member_id"): Activity(**one) for one in row["activity"] or ()},
        tuple(one["at_ms"] - one["paused_ms"] for one in row["takes"] or () if one["paused_ms"] is not None),
    )


def _member(row: Mapping[str, Any]) -> epoch_image.Member:
    shares = tuple(Share(one["topic"], tuple(one["partitions"])) for one in row["assigned"] or ())
    return epoch_image.Member(**{**row, "topics": tuple(row["topics"] or ()), "assigned": shares})


def _change(row: Mapping[str, Any]) -> Change:
    gone = tuple(epoch_image.Gone(**{**one, "member": _member(one["member"])}) for one in row["gone"])
    return Change(**{**row, "joined": tuple(row["joined"]), "gone": gone, "resubscribed": tuple(row["resubscribed"])})


def epoch_row(group: str, one: Raised) -> dict[str, Any]:
    """A row of INFERRED_REBALANCE. It has no phases, and `is_cooperative` is null: each member continues by itself."""
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
    """The columns about the members that joined, left, and died, with the cost of unnoticed deaths."""
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
