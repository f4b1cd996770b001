"""The what-if of all groups as a Spark job, one group for each task.

It makes the tables `fidelity`, `whatif` and `advice`. A task gets a group's history as JSON, one text for each event or
record. So histories from events and from records have one form. Of a very long history, only the newest part is
replayed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from muster.coordinator.groups.common import events
from muster.pipeline.frames import Column, DataFrame, F, Window, from_arrow_schema, spread
from muster.pipeline.infer.epoch_image import CURRENT, TARGET_EPOCH
from muster.pipeline.schema import CLASSIC_GROUP, CONSUMER_GROUP, SOURCE_INFERRED
from muster.pipeline.tables import keep, table
from muster.pipeline.tables.epoch_states import NOT_REPLAYED
from muster.pipeline.tables.inputs import MEMBER_FIELDS, Inputs
from muster.pipeline.tables.schema import TABLES, conform
from muster.pipeline.tables.silences import of_all, of_some
from muster.pipeline.whatif import from_epochs, from_events, from_log
from muster.pipeline.whatif.advice import advice, unadvised
from muster.pipeline.whatif.compare import Comparison, compare, withheld
from muster.pipeline.whatif.costs import Figures
from muster.pipeline.whatif.history import EVENTS, EXPIRED, LEFT, LOG, REPLACED, History
from muster.pipeline.whatif.processes import SILENT_MS, add_last_commits
from muster.pipeline.whatif.settings import DEFAULT_GRID, Setting
from muster.pipeline.wording import moment

LONGEST_HISTORY: Final = 32_000_000
"""The most characters of JSON for one group's task: some ten thousand rebalances of a group of five."""
_ENDS: Final = "ends"
_DIED: Final = "died"
_HEARD: Final = "heard"
_AWAY: Final = "away"
_STARTS: Final = "starts"
_MADE: Final = ("fidelity", "whatif", "advice")
_EPOCHS: Final = "epochs"
_TARGETS: Final = "targets"
_BEATS: Final = "beats"
_RESULT: Final = pa.schema(
    [
        ("table", pa.string()),
        *{field.name: field for name in _MADE for field in TABLES[name]}.values(),
    ]
)
"""A row of one of the tables `fidelity`, `whatif` and `advice`."""


def what_if(
    inputs: Inputs,
    settings: Sequence[Setting] = DEFAULT_GRID,
    memberships: DataFrame | None = None,
    rebalances: DataFrame | None = None,
    commits: DataFrame | None = None,
    silences: DataFrame | None = None,
) -> dict[str, DataFrame]:
    """The tables `fidelity`, `whatif` and `advice` (tables.schema.TABLES), computed once when the first is read.

    If a group has a rebalance in `inputs.events`, its history comes from the events, otherwise from the offsets log
    alone. Then the table `memberships` says which members left or expired, and `rebalances` when each rebalance began.
    The table `commits` says how long members that left, or were replaced, had been silent. The table `silences` says
    which rebalances no setting would have spared. The real settings are always
    replayed, for the fidelity; they are in `whatif` only if they are among `settings`.
    """
    histories = _histories(inputs, memberships, rebalances)
    if memberships is not None and commits is not None:
        histories = histories.unionByName(_heard(memberships, commits))
    if inputs.epochs is not None:
        # members of a share group own partitions together, so none is paused, and no setting of the grid would help.
        # The assignor of streams groups is another one
        others = inputs.epochs.where(F.col("protocol_type").isin(*NOT_REPLAYED)).select("group").distinct()
        histories = histories.join(others, "group", "left_anti").select(*histories.columns)
    if silences is not None:
        histories = histories.unionByName(_away(histories, silences))
    rows = _newest(histories).crossJoin(F.broadcast(_end(inputs)))
    grid = tuple(settings)

    def play(history: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(played(history, grid)), _RESULT)

    result = keep(spread(rows, "group").groupBy("group").applyInArrow(play, from_arrow_schema(_RESULT)))
    return {name: conform(result.where(F.col("table") == name), name) for name in _MADE}


def played(rows: pa.Table, settings: Sequence[Setting]) -> Iterator[dict[str, Any]]:
    """The result rows of one group. `rows` has the group's history (group, source, log_offset, value, end_ms)."""
    rows = rows.sort_by("log_offset")
    group, kinds = rows.column("group")[0].as_py(), rows.column("source")
    source = EVENTS if EVENTS in kinds.to_pylist() else LOG
    try:
        history = _read(group, source, rows)
        add_last_commits(history, _last_commits_of(rows))
        history.away = _silences_of(rows)
        comparison = compare(history, settings)
    except Exception as error:  # noqa: BLE001  # an error in one group must not end the what-if of the others
        history = History(group, source)
        what = f"its history cannot be replayed: {type(error).__name__}: {error}"
        comparison = Comparison(withheld(history, what), Figures())
    yield from rows_of(history, comparison)


def _read(group: str, source: str, rows: pa.Table) -> History:
    values, end_ms = rows.column("value"), rows.column("end_ms")[0].as_py() or 0
    if source == EVENTS:
        pairs = zip(rows.column("source"), values, strict=True)
        return from_events.history_of(
            group, (json.loads(value.as_py()) for kind, value in pairs if kind.as_py() == EVENTS), end_ms
        )
    ends: dict[str, str] = {}
    died: dict[tuple[str, int], int] = {}
    epochs: list[dict[str, Any]] = []
    targets: list[int] = []
    beats: dict[str, list[int]] = {}
    starts: dict[tuple[int, int], int] = {}
    records: list[dict[str, Any]] = []
    for kind, value in zip(rows.column("source"), values, strict=True):
        parsed = json.loads(value.as_py())
        if kind.as_py() == _ENDS:
            ends[parsed["member_id"]] = EXPIRED
        elif kind.as_py() == _DIED:
            died[parsed["member_id"], parsed["end_ms"]] = parsed["last_ms"]
        elif kind.as_py() in (_HEARD, _AWAY):
            continue
        elif kind.as_py() == _STARTS:
            starts[parsed["generation"], parsed["end_ms"]] = parsed["start_ms"]
        elif kind.as_py() == _EPOCHS:
            epochs.append(parsed)
        elif kind.as_py() == _TARGETS:
            targets.append(parsed["at_ms"])
        elif kind.as_py() == _BEATS:
            beats.setdefault(parsed["member_id"], []).append(parsed["at_ms"])
        else:
            records.append(parsed)
    if not epochs:
        return from_log.history_of(group, records, ends, end_ms, starts)
    changed_ms, is_classic = from_epochs.protocol_changed(epochs, records)
    if is_classic:
        records = [one for one in records if one["at_ms"] > changed_ms]
        history = from_log.history_of(group, records, ends, end_ms, starts)
    else:
        epochs = [one for one in epochs if one["at_ms"] > changed_ms]
        history = from_epochs.history_of(group, epochs, died, end_ms, targets)
        history.beats = {member_id: sorted(times) for member_id, times in beats.items()}
    if changed_ms and not history.generations and history.given is None:
        history.unusable = (
            f"it had members of both protocols until {moment(changed_ms)} UTC, and nothing happened since"
        )
    elif changed_ms:
        history.note = f"only since it is a group of the {history.protocol} protocol, from {moment(changed_ms)} UTC on"
    return history


def _last_commits_of(rows: pa.Table) -> dict[str, list[int]]:
    """The last commit of each member in each of its stays."""
    heard: dict[str, list[int]] = {}
    for kind, value in zip(rows.column("source"), rows.column("value"), strict=True):
        if kind.as_py() == _HEARD:
            one = json.loads(value.as_py())
            heard.setdefault(one["member_id"], []).append(one["heard_ms"])
    return heard


def _silences_of(rows: pa.Table) -> list[tuple[int, int]]:
    """The times without a sign of life of any group."""
    some = zip(rows.column("source"), rows.column("value"), strict=True)
    found = [json.loads(value.as_py()) for kind, value in some if kind.as_py() == _AWAY]
    return sorted((one["from_ms"], one["until_ms"]) for one in found)


def rows_of(history: History, comparison: Comparison) -> Iterator[dict[str, Any]]:
    """The rows of the tables for one group's comparison."""
    fidelity, advised = comparison.fidelity, advice(history, comparison)
    yield {
        "table": "fidelity",
        "group": history.group,
        **asdict(fidelity),
        "share": fidelity.share if fidelity.generations else None,
        "unadvised": unadvised(history, comparison) if advised is None else None,
    }
    actual = {f"actual_{name}": value for name, value in _figures(comparison.actual).items()}
    for row in comparison.whatif:
        yield {
            "table": "whatif",
            "group": history.group,
            "setting": row.setting.name,
            "settings_json": row.setting.to_json(),
            "why": row.why,
            **actual,
            **({} if row.figures is None else _figures(row.figures)),
        }
    if advised is not None:
        yield {
            "table": "advice",
            "group": history.group,
            "source": history.source,
            "setting": advised.setting.name,
            "settings_json": advised.setting.to_json(),
            "spared": advised.spared,
            "rebalances": comparison.actual.rebalances,
            "gain_s": advised.gain_ms / 1000,
            "unread_s": advised.unread_ms / 1000,
            "uncertainty_s": advised.uncertainty_ms / 1000,
            "sentence": advised.sentence,
        }


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "rebalances": figures.rebalances,
        "moved_partitions": figures.moved_partitions,
        "paused_partition_s": figures.paused_partition_ms / 1000,
        "silent_partition_s": figures.silent_partition_ms / 1000,
        "detect_ms": figures.detect_ms,
    }


def _histories(inputs: Inputs, memberships: DataFrame | None, rebalances: DataFrame | None) -> DataFrame:
    """The rows (group, source, log_offset, value) of each group's history, from the better of its two sources."""
    record = F.struct(
        F.col("log_timestamp_ms").alias("at_ms"),
        *("is_tombstone", "generation", "protocol_type", "protocol", "leader", "state_timestamp_ms"),
        F.transform("members", _member).alias("members"),
    )
    classic = table(inputs.decoded, CLASSIC_GROUP).where(F.col("group").isNotNull())
    records = _row(classic, LOG, F.to_json(record, {"ignoreNullFields": "false"}))
    if memberships is not None:
        expired = memberships.where(F.col("end_cause") == EXPIRED)
        ends = _row(
            expired.withColumn("log_offset", F.lit(-1).cast("long")),
            _ENDS,
            F.to_json(F.struct("member_id")),
        )
        records = records.unionByName(ends)
    if rebalances is not None:
        inferred = rebalances.where((F.col("source") == SOURCE_INFERRED) & F.col("start_ms").isNotNull())
        starts = _row(
            inferred.withColumn("log_offset", F.lit(-1).cast("long")),
            _STARTS,
            F.to_json(F.struct("generation", "end_ms", "start_ms")),
        )
        dead = inferred.select("group", F.explode("died").alias("one")).withColumn("log_offset", F.lit(-1).cast("long"))
        last = F.struct(*(F.col("one")[name].alias(name) for name in ("member_id", "end_ms", "last_ms")))
        records = records.unionByName(starts).unionByName(_row(dead, _DIED, F.to_json(last)))
    if inputs.epochs is not None:
        records = records.unionByName(_epochs(inputs.epochs, inputs.decoded))
    if inputs.events is None:
        return records
    of_events = inputs.events.where(F.col("group").isNotNull() & F.col("kind").isin(*from_events.KINDS))
    groups = of_events.where(F.col("kind") == events.REBALANCE_COMPLETED).select("group").distinct()
    of_events = _row(of_events.join(groups, "group", "left_semi"), EVENTS, F.col("value"))
    return of_events.unionByName(records.join(groups, "group", "left_anti"))


def _heard(memberships: DataFrame, commits: DataFrame) -> DataFrame:
    """The last commits of members that left, or were replaced, after a while without a commit."""
    ended = memberships.where(F.col("end_cause").isin(LEFT, REPLACED)).select("group", "member_id", "end_ms")
    who = ["group", "member_id"]
    rows = commits.where(F.col("member_id").isNotNull() & ~F.col("is_deleted"))
    # a KIP-848 member that was removed returns under its member id
    last = rows.groupBy(*who, "generation").agg(F.max("time_ms").alias("last_ms"))
    both = ended.join(last, who).where(F.col("last_ms") <= F.col("end_ms"))
    heard = both.groupBy(*who, "end_ms").agg(F.max("last_ms").alias("heard_ms"))
    silent = heard.where(F.col("end_ms") - F.col("heard_ms") >= SILENT_MS)
    return _row(
        silent.withColumn("log_offset", F.lit(-1).cast("long")), _HEARD, F.to_json(F.struct("member_id", "heard_ms"))
    )


def _away(histories: DataFrame, silences: DataFrame) -> DataFrame:
    """For each group, the times without a sign of life of any group, or of this group and others."""
    groups = histories.select("group").distinct()
    whole = of_all(silences).select("from_ms", "until_ms")
    rows = groups.crossJoin(F.broadcast(whole)).unionByName(
        groups.join(F.broadcast(of_some(silences).select("group", "from_ms", "until_ms")), "group")
    )
    rows = rows.withColumn("log_offset", F.lit(-1).cast("long"))
    return _row(rows, _AWAY, F.to_json(F.struct("from_ms", "until_ms")))


def _epochs(epochs: DataFrame, decoded: DataFrame) -> DataFrame:
    """The epochs of KIP-848 groups, the times of target assignments, and when members got other partitions."""
    wanted = ("at_ms", "is_tombstone", "generation", "protocol", "state_timestamp_ms", "members", "owners", "takes")
    known = epochs.where(F.col("is_tombstone").isNotNull())
    rows = _row(known, _EPOCHS, F.to_json(F.struct(*wanted, "change"), {"ignoreNullFields": "false"}))
    targets = table(decoded, CONSUMER_GROUP).where((F.col("key_type") == TARGET_EPOCH) & ~F.col("is_tombstone"))
    made = _row(
        targets.withColumn("log_offset", F.lit(-1).cast("long")),
        _TARGETS,
        F.to_json(F.struct(F.col("log_timestamp_ms").alias("at_ms"))),
    )
    has = table(decoded, CONSUMER_GROUP).where((F.col("key_type") == CURRENT) & ~F.col("is_tombstone"))
    member_id = F.get_json_object("key_json", "$.memberId").alias("member_id")
    beats = _row(has, _BEATS, F.to_json(F.struct(F.col("log_timestamp_ms").alias("at_ms"), member_id)))
    extra_rows = made.unionByName(beats)
    return rows.unionByName(extra_rows.join(known.select("group").distinct(), "group", "left_semi"))


def _end(inputs: Inputs) -> DataFrame:
    """One row with end_ms: the end of the log."""
    ends = inputs.decoded.agg(F.max("log_timestamp_ms").alias("end_ms"))
    if inputs.events is not None:
        ends = ends.unionByName(inputs.events.agg(F.max("time_ms").alias("end_ms")))
    return ends.agg(F.max("end_ms").alias("end_ms"))


def _member(member: Column) -> Column:
    fields = {**MEMBER_FIELDS, "subscription": "subscription"}  # bytes are base64 in JSON
    return F.struct(*(member[old].alias(new) for new, old in fields.items()))


def _row(rows: DataFrame, source: str, value: Column) -> DataFrame:
    return rows.select("group", F.lit(source).alias("source"), "log_offset", value.alias("value"))


def _newest(rows: DataFrame) -> DataFrame:
    """The newest rows of each group, as many as a task can hold."""
    from_the_end = Window.partitionBy("group").orderBy(F.col("log_offset").desc())
    so_far = F.sum(F.when(F.col("log_offset") >= 0, F.length("value")).otherwise(0)).over(from_the_end)
    return rows.withColumn("so_far", so_far).where(F.col("so_far") <= LONGEST_HISTORY).drop("so_far")
