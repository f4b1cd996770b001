"""The table `stalls`: the progress of each partition's commits, by the rules of LinkedIn's Burrow.

docs/pipeline-tables.md has the rules. The window slides over the whole history. If the ends of the topics are not
known, `lag_known` is false. Then only REWIND is found, and an offset that is committed again and again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple

from muster.pipeline.episodes.silence import Silence, silent_ms
from muster.pipeline.episodes.thresholds import AGAIN_COMMITS, BACK_MS, LATE_MS, LONGEST_GAPS, SETTLE_MS, USUAL_GAPS
from muster.pipeline.frames import DataFrame, F
from muster.pipeline.tables import by_group
from muster.pipeline.tables.findings import FINDING, read
from muster.pipeline.tables.ordered_columns import LARGEST
from muster.pipeline.tables.schema import TABLES, conform
from muster.pipeline.tables.silences import silences_in, with_silences
from muster.pipeline.tables.stall_candidates import (
    BESIDE_MS,
    CANDIDATE,
    GRADES,
    INTERVAL,
    LONG,
    MEMBER_COMMITS,
    REPEATED_MS,
    SPAN_MS,
    STALL,
    STILL_MS,
    STOP,
    SURELY_MS,
    WINDOW,
)
from muster.pipeline.tables.stalls_sure import stood_before, surely_waited

REPEATS_MS: Final = 60_000
"""The least length of a stall in which only the same offset of the partition is committed, several times."""
_IN_TURN_SHARE: Final = 0.5
"""A partition only waits if the records in other partitions were unread for this share of its own time, too."""

_AT_ONCE_MS: Final = 5_000
"""Progress this soon before the end of a stall has the same reason as the end."""
_DELIVERY_MS: Final = 120_000
"""Producers send a record for at most this long (delivery.timeout.ms). Its own time is the time before."""

_PROGRESS: Final = 2
"""A group that made progress this often after a silence is back. A member that did so this often goes on."""

Row = dict[str, Any]
Progress = tuple[int, int]
"""When a member made progress, and for how long the record after that had been unread (ms)."""
_NO_PROGRESS: Final[Mapping[str | None, Sequence[Progress]]] = {}
_NO_CLIENTS: Final[Mapping[str | None, str | None]] = {}
Times = tuple[int | None, int | None, str | None]
"""The time (from, to) in which a partition had an owner, and the member id. None as the end: the owner still has it."""


def stalls_of(
    intervals: Iterable[Row],
    candidates: Iterable[Row],
    member_commits: Mapping[str | None, Sequence[Progress]],
    owned: Mapping[tuple[str, int], Sequence[Times]] | None,
    silences: Sequence[Silence] = (),
    clients: Mapping[str | None, str | None] = _NO_CLIENTS,
) -> Iterator[Row]:
    """Rows of the table `stalls` of one group (with the column `log_partition` too).

    They are made from the group's INTERVALs, and from the rows of CANDIDATE that are stalls. `member_commits`: when
    each member made progress, in the order of time. `owned`: when each partition had an owner; None: the last committer
    still has the partition. `silences`: when no group gave a sign of life. They do not count. `clients`: the client id
    of each owner.
    """
    rows = [{**one, "status": GRADES[one["status"]], "complete": one["commits"] / WINDOW} for one in intervals]
    some = sorted(candidates, key=lambda one: one["from_ms"])
    found = []
    stood: dict[tuple[int, str, int], list[Silence]] = {}
    for one in some:
        of_it = stood.setdefault((one["log_partition"], one["topic"], one["partition"]), [])
        row = _stall(one, member_commits, owned, silences, clients, of_it)
        if row is not None:
            until_ms = one["time_ms"] if one["run_commits"] > 1 else one["to_ms"]
            of_it.append(Silence(row["start_ms"], until_ms, 1))
            found.append(row)
    repeated = [one for one in some if one["known_end"] is None]
    is_sure = (one["lag_known"] or (_has_one_owner(one, found) and not _in_turn(one, repeated)) for one in found)
    return _with_group([*rows, *(one for one, kept in zip(found, is_sure, strict=True) if kept)])


def _has_one_owner(one: Row, rows: Sequence[Row]) -> bool:
    """Is it the only member of its group that repeats offsets at that time?

    One member may fail. If several members repeat offsets, they perhaps only read their other partitions first.
    """
    return not any(
        row["member_id"] != one["member_id"]
        and row["start_ms"] < (one["end_ms"] or LARGEST) and one["start_ms"] < (row["end_ms"] or LARGEST)
        for row in rows if not row["lag_known"]
    )  # fmt: skip


def _in_turn(one: Row, repeated: Iterable[Row]) -> bool:
    """Does the member repeat offsets of its other partitions at other times?

    Then it perhaps reads its partitions in turn: a slow consumer does so.
    """
    return any(
        each["member_id"] == one["member_id"] and abs(each["run_ms"] - one["start_ms"]) > SPAN_MS
        and (each["topic"], each["partition"]) != (one["topic"], one["partition"])
        for each in repeated
    )  # fmt: skip


def _stall(
    one: Row, member_commits: Mapping[str | None, Sequence[Progress]], owned: Any, silences: Sequence[Silence],
    clients: Mapping[str | None, str | None], stood: Sequence[Silence],
) -> Row | None:  # fmt: skip
    """A time in which the committed offset did not change, though the partition had an owner and unread records.

    The result is None if it was no stall. A stall lasts for STILL_MS at least. This is enough if the owner makes
    progress with other partitions. Otherwise perhaps nobody wrote records, or the coordinator was away. Then REPEATS_MS
    are needed if the partition commits this same offset several times, and SETTLE_MS if its owner is silent.

    `stood`: when the partition stood still before.
    """
    owner = one["member_id"]
    if owned is not None:
        had_members = one["generation"] is not None or bool(owned)
        of_it = [*owned.get((one["topic"], one["partition"]), ()), *_unknown_owner(one, owned)]
        times = _while_owned(one, of_it if had_members else None, silences)
        if times is None:
            return None
        one = {**one, "from_ms": times.from_ms, "to_ms": times.to_ms, "had_ms": times.had_ms}
        if times.owner and times.owner != owner:  # another member committed last
            owner = times.owner
            one = {**one, "member_id": owner, "client_id": clients.get(owner)}
    progress = member_commits.get(owner, ())
    continues = _makes_progress(progress, max(one["run_ms"], one.get("had_ms") or 0), silences)
    repeats = one["run_commits"] >= AGAIN_COMMITS
    if one["known_end"] is None:
        # without commits, nobody knows whether it still stalls
        is_late = one["to_ms"] - one["time_ms"] > STILL_MS
        one = {**one, "to_ms": one["time_ms"]} if is_late else one
        is_stall = _is_repeated(one, silences)
    else:
        wanted_ms = SURELY_MS if continues else REPEATS_MS if repeats else None
        is_stall = is_long(one, wanted_ms, silences, member_commits, stood) and _is_unread(one)
    if not is_stall or _waits(one, progress, member_commits, silences):
        return None
    lag = _lag(one)
    ends_at_end = one["is_last"] and one["to_ms"] >= one["until_ms"]
    return {
        **{name: one[name] for name in ("group", "log_partition", "topic", "partition", "member_id", "client_id")},
        "last_offset": one["committed_offset"],
        "complete": one["commits"] / WINDOW,
        "lag": lag,
        "lag_known": lag is not None,
        "start_ms": one["from_ms"],
        "end_ms": None if ends_at_end else one["to_ms"],
        "status": STALL if repeats else STOP,
        "first_offset": one["committed_offset"],
    }


def _is_repeated(one: Row, silences: Sequence[Silence]) -> bool:
    """Is one offset committed again and again, though nobody knows the end of the topic? Perhaps a record fails."""
    length_ms: int = one["to_ms"] - one["from_ms"] - silent_ms(silences, one["from_ms"], one["to_ms"])
    return bool(length_ms >= REPEATED_MS)


def _unknown_owner(one: Row, owned: Mapping[tuple[str, int], Sequence[Times]]) -> Iterator[Times]:
    """The time of an owner before the log's first members: somebody committed one offset again and again."""
    starts = [since_ms or 0 for some in owned.values() for since_ms, _, _ in some]
    if one["generation"] is None and one["run_commits"] >= AGAIN_COMMITS and one["time_ms"] < min(starts, default=0):
        yield one["run_ms"], one["time_ms"], one["member_id"]


def _makes_progress(progress: Sequence[Progress], since_ms: int, silences: Sequence[Silence]) -> bool:
    """Whether the member made progress, with any partition, in the second half of STILL_MS after `since_ms`.

    If a silence began before that, the progress after the silence counts.
    """
    from_ms, to_ms = since_ms + STILL_MS // 2, since_ms + STILL_MS
    for each in silences:
        if since_ms <= each.from_ms <= to_ms:
            from_ms, to_ms = each.until_ms, each.until_ms + STILL_MS
    place = bisect_left(progress, (from_ms, 0))
    return place < len(progress) and progress[place][0] <= to_ms


def _waits(
    one: Row, own: Sequence[Progress], member_commits: Mapping[str | None, Sequence[Progress]],
    silences: Sequence[Silence],
) -> bool:  # fmt: skip
    """Does the partition only wait, for a slow owner that reads other ones, or for records that come late?

    A consumer that is too slow reads its partitions in turn. So in the others, too, it reads records that waited for
    about as long as this partition. A consumer that fails in one partition reads the others to their ends. Sometimes
    producers send records late, with their old times, as after a silence. Then no member makes steady progress. But a
    batch came after its newest record. So records that were unread for SETTLE_MS were there. Soon after a silence, only
    batches that were sent in time show that. `own`: the progress of the owner.
    """
    from_ms, to_ms = one["from_ms"], one["to_ms"]
    length_ms: int = to_ms - from_ms - silent_ms(silences, from_ms, to_ms)
    since_ms, until_ms = from_ms + (to_ms - from_ms) // 2, to_ms - _AT_ONCE_MS
    after = [each for each in silences if from_ms < each.until_ms + BACK_MS and each.until_ms < to_ms]
    late = [each for each in after if to_ms <= each.until_ms + BACK_MS + _DELIVERY_MS]
    if _reads_old(_within(own, since_ms, until_ms), from_ms, silences):
        return True
    for each in late:
        if each.from_ms - from_ms >= STILL_MS:  # the partition stood still before the silence
            since_ms, until_ms = (from_ms + each.from_ms) // 2, each.from_ms
        else:
            since_ms = max(since_ms, each.until_ms + BACK_MS)
    if late and _reads_old(_within(own, since_ms, until_ms), from_ms, silences):
        return True
    if not late and length_ms >= SETTLE_MS and one["known_end"] is not None:
        return False
    if late and surely_waited(one, silences):
        return False
    every = [_within(some, since_ms, until_ms) for some in member_commits.values()]
    spans = {at_ms // SPAN_MS for some in every for at_ms, _ in some}
    is_steady = bool(spans) and 2 * SPAN_MS * len(spans) >= until_ms - since_ms
    is_silent = one["run_commits"] < AGAIN_COMMITS
    return not is_steady and not (
        is_silent and any(_is_usual(some, since_ms, until_ms) for some in member_commits.values())
    )


def _is_usual(progress: Sequence[Progress], from_ms: int, to_ms: int) -> bool:
    """Did a member that commits rarely make progress in this time, as often as it usually does?"""
    times = sorted({at_ms for at_ms, _ in progress})
    some = [at_ms for at_ms in times if from_ms <= at_ms < to_ms]
    gaps = [after - before for before, after in pairwise(times)]
    return len(some) >= _PROGRESS and 2 * median(gaps) * len(some) >= to_ms - from_ms


def _reads_old(own: Sequence[Progress], from_ms: int, silences: Sequence[Silence]) -> bool:
    """Did an owner usually read records that had waited for about as long as a partition that waits since `from_ms`?

    While the broker is away, producers keep their records. So silences do not count.
    """

    def waited_ms(since_ms: int, at_ms: int) -> int:
        return at_ms - since_ms - silent_ms(silences, since_ms, at_ms)

    shares = [waited_ms(at_ms - ms, at_ms) / max(waited_ms(from_ms, at_ms), 1) for at_ms, ms in own]
    return bool(shares) and median(shares) >= _IN_TURN_SHARE


def _within(progress: Sequence[Progress], from_ms: int, to_ms: int) -> Sequence[Progress]:
    """The progress in this time."""
    return progress[bisect_left(progress, (from_ms, 0)) : bisect_left(progress, (to_ms, 0))]


class _Part(NamedTuple):
    """A part of a time, in which a partition had one owner."""

    from_ms: int
    to_ms: int
    had_ms: int | None
    """Since when the owner had the partition."""
    owner: str | None
    """The member id of the owner."""


def _while_owned(one: Row, owned: Sequence[Times] | None, silences: Sequence[Silence]) -> _Part | None:
    """The longest part of the time in which the partition had an owner.

    Silences do not count. None: this part is too short. For groups that never had members (`owned` is None), it is the
    whole time.
    """
    from_ms, to_ms = one["from_ms"], one["to_ms"]
    had_ms: int | None = None
    owner: str | None = None
    if owned is not None:
        # of equally long parts the later one counts; and of two such parts, one that is over counts
        best: tuple[int, int, bool, int, str] | None = None
        for since_ms, gave_ms, who in owned:
            if since_ms is None or since_ms >= to_ms or (to_ms if gave_ms is None else gave_ms) <= from_ms:
                continue
            until_ms = to_ms if gave_ms is None else gave_ms
            begin_ms, end_ms = max(since_ms, from_ms), min(until_ms, to_ms)
            length_ms = end_ms - begin_ms - silent_ms(silences, begin_ms, end_ms)
            found = (length_ms, since_ms, gave_ms is not None, until_ms, who or "")
            best = found if best is None else max(best, found)
        if best is None:
            return None
        had_ms, owner = best[1], best[4]
        from_ms, to_ms = max(from_ms, had_ms), min(to_ms, best[3])
    return _Part(from_ms, to_ms, had_ms, owner) if to_ms - from_ms >= STILL_MS else None


def is_long(
    one: Row, wanted_ms: int | None, silences: Sequence[Silence] = (),
    member_commits: Mapping[str | None, Sequence[Progress]] = _NO_PROGRESS, stood: Sequence[Silence] = (),
) -> bool:  # fmt: skip
    """Whether a partition stalled from `from_ms` to `to_ms`, not counting silences.

    The stall must last for `wanted_ms`, and for some of the partition's usual times between commits. Or its owner was
    silent for SETTLE_MS. If `wanted_ms` is None, only this counts. `member_commits`: when each member made progress.
    `stood`: when the partition stood still before. That was not usual, either.
    """
    # while a group restarts, commits come more often than usual. A gap that was usual before the restart is no stall
    unusual = [*stood, *(each for each in silences if not any(_touch(each, other) for other in stood))]
    spent_ms = one["last_ms"] - one["first_ms"] - silent_ms(unusual, one["first_ms"], one["last_ms"])
    mean_ms = max(spent_ms / max(one["commits"] - 1, 1), _calm_ms(unusual, one))
    usual_ms = max(USUAL_GAPS * mean_ms, LONGEST_GAPS * _without(unusual, one, one["longest_ms"]))
    from_ms, to_ms = one["from_ms"], one["to_ms"]
    away = [each._replace(until_ms=_back_ms(one, each.until_ms, member_commits)) for each in silences]
    surely_ms = to_ms - (since_ms := max(from_ms, one["beyond_ms"])) - silent_ms(away, since_ms, to_ms)
    if wanted_ms is not None and surely_ms >= max(wanted_ms, usual_ms):
        return True
    # often only the last known end of a topic shows that the partition is behind
    only_last = one["is_last"] and one["not_beyond_ms"] is None
    quiet_ms = to_ms - from_ms - silent_ms(away, from_ms, to_ms) if only_last else surely_ms
    enough = one["commits"] == WINDOW or (one["is_last"] and one["commits"] > 1)
    usual_ms = max(usual_ms, LONGEST_GAPS * _without(unusual, one, one["silence_ms"]))
    if enough and quiet_ms >= max(SETTLE_MS, usual_ms):
        return True
    return surely_ms >= max(BESIDE_MS, usual_ms) and (
        _others_go_on(one, surely_ms, silences, member_commits) or stood_before(one, silences, mean_ms)
    )


def _touch(one: Silence, other: Silence) -> bool:
    return one.from_ms <= other.until_ms and other.from_ms <= one.until_ms


def _others_go_on(
    one: Row, length_ms: int, silences: Sequence[Silence], member_commits: Mapping[str | None, Sequence[Progress]]
) -> bool:
    """Is the owner silent in all its partitions for much longer than other members between two commits?

    Members of one group usually have the same settings. So the others show how often the owner would commit. If they
    commit rarely, a silence takes away whole gaps. Then their commits after it are counted.
    """
    from_ms, to_ms, owner = one["from_ms"], one["to_ms"], one["member_id"]
    own = _within(member_commits.get(owner, ()), from_ms + 1, to_ms - _AT_ONCE_MS)
    others = [_within(some, from_ms, to_ms) for who, some in member_commits.items() if who != owner]
    times = (from_ms, *sorted(at_ms for some in others for at_ms, _ in some), to_ms)
    gaps = (until - since - silent_ms(silences, since, until) for since, until in pairwise(times))
    is_longer = any(others) and USUAL_GAPS * max(gaps) <= length_ms
    return not own and (is_longer or any(_goes_on_rarely(some, one, silences) for some in others))


def _goes_on_rarely(progress: Sequence[Progress], one: Row, silences: Sequence[Silence]) -> bool:
    """Did another member, which commits rarely, commit USUAL_GAPS times since the last silence?"""
    from_ms, to_ms = one["from_ms"], one["to_ms"]
    back_ms = max((each.until_ms + LATE_MS for each in silences if from_ms <= each.until_ms <= to_ms), default=to_ms)
    times = sorted({at_ms for at_ms, _ in _within(progress, back_ms, to_ms - _AT_ONCE_MS)})
    return len(times) >= USUAL_GAPS and median(after - before for before, after in pairwise(times)) > SPAN_MS


def _back_ms(one: Row, until_ms: int, member_commits: Mapping[str | None, Sequence[Progress]]) -> int:
    """When a group was back after a silence. It needs some time until all members are back.

    An owner that got the partition after the silence is back. So is one that kept it, once its group makes progress
    again. An owner that commits again and again is back when it does so after the silence.
    """
    found = [until_ms + BACK_MS]
    had_ms = one.get("had_ms")
    if had_ms is not None and had_ms >= until_ms:
        found.append(had_ms)
    some = [at for each in member_commits.values() for at, _ in _within(each, until_ms + 1, min(found))]
    if len(some) >= _PROGRESS:
        found.append(sorted(some)[_PROGRESS - 1])
    if one["run_commits"] >= AGAIN_COMMITS:
        if one["run_ms"] > until_ms:
            found.append(until_ms)
        elif one["again_ms"] > until_ms:
            found.append(one["again_ms"])
    return min(found)


def _calm_ms(silences: Iterable[Silence], one: Row) -> float:
    """The mean time between the last LONG commits, without a silence. It is 0 if there are fewer commits."""
    return _without(silences, one, (one["calm_ms"] or 0) * (LONG - 1)) / (LONG - 1)


def _without(silences: Iterable[Silence], one: Row, length_ms: int | None) -> int:
    """A time before a candidate, without the longest silence that it may contain."""
    ms = length_ms or 0
    known = [each.until_ms - each.from_ms for each in silences if each.until_ms <= one["last_ms"]]
    return ms - max((length for length in known if length <= ms), default=0)


def _is_unread(one: Row) -> bool:
    """Whether an unread record surely exists.

    A single record may be the end of a transaction, which no application reads, if nothing was written after it.
    """
    is_written = one["is_last"] and one["end_ms"] is not None and one["end_ms"] - one["from_ms"] >= STILL_MS
    lag = _lag(one)
    return is_written or (lag is not None and lag > 1)


def _lag(one: Row) -> int | None:
    return None if one["known_end"] is None else min(max(one["known_end"] - one["committed_offset"], 0), LARGEST)


def _with_group(rows: list[Row]) -> Iterator[Row]:
    """Rows with the status of their group: the worst status of its partitions at the end of the log.

    A partition that stalls at the end has no row with status OK at the end.
    """

    def place(row: Row) -> tuple[int, str, int]:
        return row["log_partition"], row["topic"], row["partition"]

    still = {place(row) for row in rows if row["end_ms"] is None and row["status"] in (STALL, STOP)}
    kept = [
        row for row in rows if row["end_ms"] is not None or row["status"] in (STALL, STOP) or place(row) not in still
    ]
    worst = max((GRADES.index(row["status"]) for row in kept if row["end_ms"] is None), default=None)
    return ({**row, "group_status": None if worst is None else GRADES[worst]} for row in kept)


_OWNED: Final = (
    "struct<topic: string, partition: int, start_ms: bigint, end_ms: bigint, member_id: string, client_id: string>"
)


def stalls(walk: DataFrame, owned: DataFrame | None = None, silences: DataFrame | None = None) -> DataFrame:
    """Rows of the table `stalls`, made from rows of `commits.walked`.

    `owned`: the table `ownership`; None: the last committer still has the partition. `silences`: the table `silences`.
    """
    rows = walk.where(F.col("found").isin("interval", "candidate", "member_commits"))
    rows = rows.select(*FINDING.names, F.lit(None).cast(_OWNED).alias("owned"))
    if owned is not None:
        had = F.struct("topic", "partition", "start_ms", "end_ms", "member_id", "client_id").cast(_OWNED)
        rows = rows.unionByName(owned.select("group", had.alias("owned")), allowMissingColumns=True)
    is_known = owned is not None
    if silences is not None:
        rows = with_silences(rows, silences)

    def judge(_: str, some: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        return _of_group(some, is_known)

    return conform(by_group(rows, "group", judge, TABLES["stalls"]), "stalls")


def _of_group(rows: Iterable[dict[str, Any]], is_known: bool) -> Iterator[dict[str, Any]]:
    intervals: list[dict[str, Any]] = []
    candidates: list[dict[str, Any]] = []
    member_commits: dict[str | None, list[Progress]] = {}
    owned: dict[tuple[str, int], list[Times]] = {}
    clients: dict[str | None, str | None] = {}
    silences: list[Silence] | None = None
    for row in rows:
        if silences is None:
            silences = silences_in(row)
        if row["found"] == "interval":
            intervals.append(read(row, INTERVAL))
        elif row["found"] == "candidate":
            candidates.append(read(row, CANDIDATE))
        elif row["found"] == "member_commits":
            one = read(row, MEMBER_COMMITS)
            pairs = iter(one["progress"])
            member_commits.setdefault(one["member_id"], []).extend(zip(pairs, pairs, strict=True))
        else:
            one = row["owned"]
            owned.setdefault((one["topic"], one["partition"]), []).append(
                (one["start_ms"], one["end_ms"], one["member_id"])
            )
            clients[one["member_id"]] = one["client_id"]
    in_order = {member: sorted(progress) for member, progress in member_commits.items()}
    return stalls_of(intervals, candidates, in_order, owned if is_known else None, silences or (), clients)
