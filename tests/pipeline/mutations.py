"""Logs that are made from known logs. Their truth follows from the original's, and claims about them must stay true.

Each function takes a log and gives another one. All are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import floor
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.decode import decode
from muster.pipeline.schema import DECODED, OFFSET_COMMIT
from muster.pipeline.sources.ends import ENDS
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.sources.topics import ends_of_path, names_of_path, reach_of_path

TIMES: Final = ("log_timestamp_ms", "commit_timestamp_ms", "state_timestamp_ms", "expire_timestamp_ms")
"""The columns of a decoded row that are times."""
OF_TRUTH: Final = ("from", "until", "at", "acted", "settled", "noticed", "last_life")
"""The fields of a truth's lines that are times."""
SILENCE_MS: Final = 120_000
AHEAD_MS: Final = 3 * 86_400_000
OTHER_PARTITIONS: Final = 1_000
"""The partitions of a second log have their numbers from here on."""

Line = dict[str, Any]


class Log(NamedTuple):
    """The decoded rows of a log, and the truth about it."""

    rows: pa.Table
    """Rows of DECODED, in the order of each partition of the log."""
    ends: pa.Table
    """Rows of ENDS."""
    truth: list[Line]
    names: Mapping[str, str] = {}  # a constant
    """The names of topics by their ids."""

    @property
    def span_ms(self) -> tuple[int, int]:
        """The times of the first and of the last record."""
        found = pc.min_max(self.rows["log_timestamp_ms"]).as_py()
        return int(found["min"]), int(found["max"])


def log_in(directory: Path, truth: list[Line]) -> Log:
    """The log in the folders of a broker."""
    reach = reach_of_path(str(directory))
    rows = pa.Table.from_batches((batch for raw in read_segments(str(directory)) for batch in decode(raw)), DECODED)
    times = rows.filter(pc.equal(rows.column("kind"), OFFSET_COMMIT)).column("log_timestamp_ms")
    ends = ends_of_path(reach, (pc.min(times).as_py(), pc.max(times).as_py()))
    return Log(rows, ENDS.empty_table() if ends is None else ends, truth, names_of_path(str(directory)))


def silent(log: Log, at_ms: int, lasted_ms: int) -> Log:
    """Nothing happens for a while: all that comes after `at_ms` comes later, and a silence explains that."""

    def later(time_ms: int) -> int:
        return time_ms + lasted_ms if time_ms >= at_ms else time_ms

    def moved(times: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.if_else(pc.greater_equal(times, at_ms), pc.add(times, lasted_ms), times)

    line = {"kind": "silence", "how": "mutation", "from": at_ms, "until": at_ms + lasted_ms}
    found = _timed(log, moved, later)
    return found._replace(truth=[*found.truth, line])


def part_away(log: Log, groups: Collection[str], at_ms: int, lasted_ms: int) -> Log:
    """The coordinator of these groups is away for a while: they cannot commit. Producers and members go on."""
    times = log.rows["log_timestamp_ms"]
    inside = pc.and_(pc.greater(times, at_ms), pc.less(times, at_ms + lasted_ms))
    gone = pc.and_(inside, pc.is_in(log.rows["group"], pa.array(sorted(groups), pa.string())))
    return log._replace(rows=log.rows.filter(pc.invert(gone)))


def quiet_ms(log: Log) -> int:
    """The middle of the longest time without a rebalance, in the middle half of the log."""
    first_ms, last_ms = log.span_ms
    quarter_ms = (last_ms - first_ms) // 4
    low, high = first_ms + quarter_ms, last_ms - quarter_ms
    spans = sorted((line["acted"], line["settled"]) for line in log.truth if line["kind"] == "rebalance")
    gaps, at = [], low
    for acted, settled in spans:
        if min(acted, high) > at:
            gaps.append((at, min(acted, high)))
        at = max(at, settled)
    if high > at:
        gaps.append((at, high))
    begin, end = max(gaps, key=lambda gap: gap[1] - gap[0], default=(low, high))
    return (begin + end) // 2


def all_at_once(log: Log) -> Log:
    """A silence of two minutes, clocks that are three days ahead, and other names. The claims stay the same."""
    return renamed(later(silent(log, quiet_ms(log), SILENCE_MS), AHEAD_MS), "-again")


def later(log: Log, by_ms: int) -> Log:
    """All clocks are ahead by as much."""
    return _timed(log, lambda times: pc.add(times, by_ms), lambda time_ms: time_ms + by_ms)


def scaled(log: Log, share: float) -> Log:
    """All clocks run faster or slower from the first record on: each time since then is multiplied by `share`."""
    begin_ms = log.span_ms[0]

    def moved(times: pa.ChunkedArray) -> pa.ChunkedArray:
        spent = pc.cast(pc.subtract(times, begin_ms), pa.float64())
        return pc.add(pc.cast(pc.floor(pc.multiply(spent, share)), pa.int64()), begin_ms)

    return _timed(log, moved, lambda time_ms: begin_ms + floor((time_ms - begin_ms) * share))


def until(log: Log, at_ms: int) -> Log:
    """The first part of a log that is cut in two: as if it was read at `at_ms`."""
    rows = log.rows.filter(pc.less_equal(log.rows["log_timestamp_ms"], at_ms))
    ends = log.ends.filter(pc.less_equal(log.ends["time_ms"], at_ms))
    known = (_ended(line, at_ms) for line in log.truth)
    groups = set(pc.unique(rows["group"]).to_pylist())
    truth = [line for line in known if line is not None and (line["kind"] != "group" or line["group"] in groups)]
    return log._replace(rows=rows, ends=ends, truth=truth)


def _ended(line: Line, at_ms: int) -> Line | None:
    begin_ms = next((line[name] for name in ("from", "acted", "at") if isinstance(line.get(name), int)), None)
    if begin_ms is not None and begin_ms > at_ms:
        return None
    if line["kind"] == "rebalance" and line["settled"] > at_ms:
        return None
    is_open = isinstance(line.get("until"), int) and line["until"] > at_ms
    return {**line, "until": at_ms} if is_open else line


def since(log: Log, at_ms: int) -> Log:
    """The second part of a log that is cut in two: retention deleted all records until `at_ms`.

    Truth about the time before stays, because later records may show it.
    """
    rows = log.rows.filter(pc.greater(log.rows["log_timestamp_ms"], at_ms))
    return log._replace(rows=rows, ends=log.ends.filter(pc.greater(log.ends["time_ms"], at_ms)))


def without_ends(log: Log) -> Log:
    """The same groups, but nobody knows how far the logs of their topics reached."""
    return log._replace(ends=log.ends.slice(0, 0))


def _timed(
    log: Log, moved: Callable[[pa.ChunkedArray], pa.ChunkedArray], of_truth: Callable[[int], int]
) -> Log:  # fmt: skip
    rows, ends = log.rows, log.ends
    for name in TIMES:
        rows = rows.set_column(rows.schema.get_field_index(name), name, moved(rows[name]))
    for name in ("time_ms", "surely_ms"):
        ends = ends.set_column(ends.schema.get_field_index(name), name, moved(ends[name]))
    return log._replace(rows=rows, ends=ends, truth=[_line_at(line, of_truth) for line in log.truth])


def _line_at(line: Mapping[str, Any], moved: Callable[[int], int]) -> Line:
    found = {
        name: moved(value) if name in OF_TRUTH and isinstance(value, int) else value for name, value in line.items()
    }
    if "died" in line:
        found["died"] = [_line_at(one, moved) for one in line["died"]]
    return found


def only(log: Log, groups: Collection[str]) -> Log:
    """The same log without its other groups, as if some partitions of the log were not read."""
    kept = [_within(line, groups) for line in log.truth]
    rows = log.rows.filter(pc.is_in(log.rows["group"], pa.array(sorted(groups), pa.string())))
    return log._replace(rows=rows, truth=[line for line in kept if line is not None])


def _within(line: Line, groups: Collection[str]) -> Line | None:
    if line.get("groups") is not None:
        return {**line, "groups": [group for group in line["groups"] if group in groups]}
    return line if line.get("group") is None or line["group"] in groups else None


def without_partition(log: Log, partition: int) -> Log:
    """A partition of the log is missing, with all groups in it."""
    rows = log.rows.filter(pc.not_equal(log.rows["log_partition"], partition))
    return only(log, set(pc.unique(rows["group"]).to_pylist()))


def compacted(log: Log, until_ms: int) -> Log:
    """Of the records until `until_ms`, only the last one of each key is left. Claims about that time may be missing."""
    lines = log.rows.select(
        ["kind", "group", "topic", "partition", "key_type", "key_json", "log_partition", "log_timestamp_ms"]
    ).to_pylist()
    last: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(lines):
        last[tuple(line[name] for name in line if name != "log_timestamp_ms")] = number
    kept = set(last.values())
    is_kept = [number in kept or line["log_timestamp_ms"] > until_ms for number, line in enumerate(lines)]
    return log._replace(rows=log.rows.filter(pa.array(is_kept)))


def renamed(log: Log, suffix: str) -> Log:
    """All groups have other names."""

    def named(name: str | None) -> str | None:
        return None if name is None else f"{name}{suffix}"

    names = [name for name in pc.unique(log.rows["group"]).to_pylist() if name is not None]
    rows = log.rows.set_column(
        log.rows.schema.get_field_index("group"), "group",
        pa.chunked_array([pa.array([named(name) for name in log.rows["group"].to_pylist()], pa.string())]),
    )  # fmt: skip
    at = rows.schema.get_field_index("key_json")
    keys = rows["key_json"]
    for name in names:
        keys = pc.replace_substring(keys, f'"groupId":"{name}"', f'"groupId":"{name}{suffix}"')
        keys = pc.replace_substring(keys, f'"groupId": "{name}"', f'"groupId": "{name}{suffix}"')
    truth = [
        {**line, **({"group": named(line["group"])} if "group" in line else {}),
         **({"groups": [named(one) for one in line["groups"]]} if line.get("groups") is not None else {})}
        for line in log.truth
    ]  # fmt: skip
    return log._replace(rows=rows.set_column(at, "key_json", keys), truth=truth)


def merged(log: Log, other: Log) -> Log:
    """Two clusters' logs as one: the second begins when the first begins. The groups must have different names."""
    second = later(other, log.span_ms[0] - other.span_ms[0])
    at = second.rows.schema.get_field_index("log_partition")
    partitions = pc.cast(pc.add(second.rows["log_partition"], OTHER_PARTITIONS), pa.int32())
    rows = pa.concat_tables([log.rows, second.rows.set_column(at, "log_partition", partitions)])
    # one broker's absence is no absence of both, and explains only what its own groups did
    return Log(
        rows, pa.concat_tables([log.ends, second.ends]), [*log.truth, *second.truth], {**log.names, **second.names}
    )
