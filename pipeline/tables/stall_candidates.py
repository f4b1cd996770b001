"""What the commits of a partition show for the table `stalls`: its status over time, and possible stalls. With numpy.

Only some commits of a partition are checked. Each is checked with a window of the commits before. `stalls` judges the
candidates.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from muster.pipeline.episodes.thresholds import AGAIN_COMMITS, SETTLE_MS, USUAL_GAPS
from muster.pipeline.schema import columns
from muster.pipeline.tables.commit_rows import CommitRows
from muster.pipeline.tables.ordered_columns import (
    Column,
    Ints,
    Mask,
    Parts,
    begins,
    behind,
    greatest,
    known,
    sorted_rows,
    struct,
)
from muster.pipeline.tables.topic_ends import Marks, Reach, with_ends

LONG: Final = 50
"""This many commits show the usual time between two commits."""
WINDOW: Final = 10
"""The number of commits in a window."""
MIN_DISTANCE_MS: Final = 1_000
"""In each span of this length, only the last commit of a partition is checked."""


class Thinned(NamedTuple):
    """The commits that are checked. A life is the time of a group's partition between two deletions of its offset."""

    rows: Ints
    """The indexes of the checked commits among all commits."""
    life: Parts
    gone_ms: Column
    """For the last commit of a life that ended: the end of the life. It is missing for other commits."""


class Windows(NamedTuple):
    """The checked commits with the facts of their windows. Each field has one value for each checked commit."""

    commits: Ints
    """The number of commits in the window."""
    first_ms: Ints
    least: Column
    """The smallest offset in the window."""
    most: Column
    """The largest offset in the window."""
    lags: Ints
    """The number of commits in the window whose lag is known."""
    least_lag: Column
    """The smallest lag in the window."""
    shrinks: Ints
    """The number of steps in the window in which the lag got smaller."""
    longest_ms: Column
    """The longest time between two commits in the window."""
    calm_ms: Column
    """The mean time between the last LONG commits. It is missing if there are fewer commits.

    While a group restarts, commits come more often than usual, and fill a window.
    """
    silence_ms: Column
    """The longest time between two commits of the same member so far.

    A restart makes more commits than a window has, all soon after each other.
    """
    next_ms: Column
    """When the next commit came. It is missing if this commit is the last one."""
    next_end: Column
    """The end of the topic's log when the next commit came."""
    is_run_start: Mask
    """Whether the commit is the first one of a run of commits with the same offset."""
    is_run_end: Mask
    """Whether the commit is the last one of its run."""
    run_ms: Ints
    """When the first commit of the run came."""
    run_commits: Ints
    """The number of commits in the run up to this commit."""
    earlier: Ints
    """The number of commits before the run."""
    runs: Ints
    """The number of runs before this one."""


def thinned(commits: CommitRows) -> Thinned:
    """The commits that are checked."""
    place, time_ms, is_deleted = commits.place, known(commits.time_ms), commits.is_deleted
    next_ms = place.after(time_ms)
    is_end = place.after(known(is_deleted))
    next_deleted = is_end.valid & (is_end.values > 0)
    same_span = next_ms.values // MIN_DISTANCE_MS == commits.time_ms // MIN_DISTANCE_MS
    rows = np.flatnonzero(~is_deleted & ~(next_ms.valid & ~next_deleted & same_span))
    life = begins(known(place.number[rows]), known(place.count_so_far(is_deleted)[rows]))
    return Thinned(rows, Parts(life), next_ms.at(rows, next_deleted[rows]))


def reach_of(commits: CommitRows, few: Thinned, marks: Marks) -> Reach:
    """The known ends of the topics beside each checked commit."""
    rows = few.rows
    return with_ends(commits.topic_part[rows], commits.time_ms[rows], commits.offset.values[rows], marks)


def windowed(commits: CommitRows, few: Thinned, end_then: Column) -> Windows:
    """The facts of the window of each checked commit."""
    rows, life = few.rows, few.life
    time_ms, offset = known(commits.time_ms[rows]), commits.offset.at(rows)
    least, most, _ = life.within(offset, 1 - WINDOW, 0)
    lag = behind(end_then, offset)
    least_lag, _, lags = life.within(lag, 1 - WINDOW, 0)
    lag_before = life.before(lag)
    shrank = lag.valid & lag_before.valid & (lag.values < lag_before.values)
    _, _, shrinks = life.within(Column(lag.values, shrank), 2 - WINDOW, 0)
    before_ms = life.before(time_ms)
    gap_ms = Column(time_ms.values - before_ms.values, before_ms.valid)
    _, longest_ms, _ = life.within(gap_ms, 2 - WINDOW, 0)
    member = commits.member_id.numbers.at(rows)
    is_run_start = begins(offset) | (life.rows == life.first)
    run, _ = life.latest(is_run_start)
    after = life.after(offset)
    position = life.rows - life.first + 1
    long_ago = np.maximum(life.first, life.rows + 1 - LONG)
    return Windows(
        np.minimum(position, WINDOW),
        time_ms.values[np.maximum(life.first, life.rows + 1 - WINDOW)],
        least,
        most,
        lags,
        least_lag,
        shrinks,
        longest_ms,
        Column((time_ms.values - time_ms.values[long_ago]) // (LONG - 1), position >= LONG),
        life.max_so_far(gap_ms.where(~begins(member))),
        life.after(time_ms).or_else(few.gone_ms),
        life.after(end_then),
        is_run_start,
        ~(after.valid & (after.values == offset.values)),
        time_ms.values[run],
        life.rows - run + 1,
        run - life.first,
        life.count_so_far(is_run_start) - 1,
    )


OK: Final = "OK"
WARN: Final = "WARN"
STOP: Final = "STOP"
STALL: Final = "STALL"
REWIND: Final = "REWIND"
GRADES: Final = (OK, REWIND, WARN, STOP, STALL)
"""The statuses, the worst last."""

REPEATED: Final = 20
"""Without a known end of the topic, a partition may stall if one offset was committed at least this often."""
MOVED: Final = 0.5
MOVED_BEFORE: Final = 8
"""Before that, it must have moved in at least the share MOVED of its commits. It must have had so many commits, too."""
REPEATED_MS: Final = 120_000
"""It must be committed for at least this time. Producers usually keep no record for longer than that."""
SPAN_MS: Final = 10_000
"""The progress of members is recorded in spans of this length."""
BESIDE_MS: Final = 60_000
"""A partition whose owner is silent for this time may stall, if other members go on meanwhile."""
STILL_MS: Final = 4 * SPAN_MS
"""A partition's commits must stand still for at least this time before a stall is reported.

This time is enough if the partition's owner makes progress with other partitions. It must show progress in the second
half of the time.
"""
SURELY_MS: Final = STILL_MS // 2
"""For at least this long, the partition must surely have had unread records. Known ends of logs may be far apart."""

_PLACE: Final = "group string, log_partition int, topic string, partition int, member_id string, client_id string"
INTERVAL: Final = pa.schema(
    columns(
        f"{_PLACE}, last_offset long, commits int, lag long, lag_known boolean, start_ms long, end_ms long, "
        "status int, first_offset long"
    )
)
"""A run of commits with one status. `status` is the status's number in GRADES."""
CANDIDATE: Final = pa.schema(
    columns(
        f"{_PLACE}, generation int, committed_offset long, commits int, first_ms long, last_ms long, again_ms long, "
        "time_ms long, longest_ms long, calm_ms long, silence_ms long, beyond_ms long, not_beyond_ms long, "
        "surely_ms long, end_then long, known_end long, end_ms long, run_ms long, run_commits int, earlier int, "
        "runs int, is_last boolean, from_ms long, to_ms long, until_ms long"
    )
)
"""A time after a commit, `from_ms` to `to_ms`, in which a partition may have stalled. Also the window of the commit.

The row also has facts about the window (`Windows`) that ends with the first commit of this offset, at `last_ms`. If too
few commits came before that, it ends with this commit. The window that ends with this commit begins at `again_ms`.
Facts about the end of the log: `topic_ends.Reach`.
`is_last`: no later commit for this partition follows before its offset is deleted, or before the log ends.
"""
MEMBER_COMMITS: Final = pa.schema([*columns("group string, member_id string"), ("progress", pa.list_(pa.int64()))])
"""When a member made progress: the first and the last time in each span.

Each time is followed by another number (ms): for how long the next record had been there, unread.
"""


def stall_candidates(commits: CommitRows, few: Thinned, reach: Reach, windows: Windows) -> dict[str, pa.StructArray]:
    """Rows of INTERVAL (named `interval`), CANDIDATE (`candidate`) and MEMBER_COMMITS (`member_commits`)."""
    status = _status(commits, few, windows)
    return {
        "interval": _intervals(commits, few, reach, windows, status),
        "candidate": _candidates(commits, few, reach, windows),
        "member_commits": _member_commits(commits, few, reach, windows),
    }


def _status(commits: CommitRows, few: Thinned, windows: Windows) -> Ints:
    """The status after each commit if the partition does not stall, as a number in GRADES."""
    full = windows.commits == WINDOW
    never_shrank = (windows.lags == WINDOW) & (windows.least_lag.values > 0) & (windows.shrinks == 0)
    is_behind = full & never_shrank & (windows.least.values < windows.most.values)
    went_back = commits.offset.values[few.rows] < windows.most.values
    found: Ints = np.where(went_back, GRADES.index(REWIND), np.where(is_behind, GRADES.index(WARN), GRADES.index(OK)))
    return found


def _places(commits: CommitRows, rows: Ints) -> dict[str, object]:
    return {
        "group": commits.group.at(rows),
        "log_partition": commits.log_partition.at(rows),
        "topic": commits.topic.at(rows),
        "partition": commits.partition.at(rows),
        "member_id": commits.member_id.at(rows),
        "client_id": commits.client_id.at(rows),
    }


def _intervals(commits: CommitRows, few: Thinned, reach: Reach, windows: Windows, status: Ints) -> pa.StructArray:
    """The runs of commits with one status. The status OK is only reported at the end of the log."""
    life = few.life
    is_last = life.rows == life.last
    start, _ = life.latest(begins(known(status)) | (life.rows == life.first))
    ends = is_last.copy()
    ends[:-1] |= status[1:] != status[:-1]
    found = np.flatnonzero(ends & ((status != GRADES.index(OK)) | ~windows.next_ms.valid))
    rows, started = few.rows[found], few.rows[start[found]]
    offset = commits.offset.at(rows)
    reached = _known_end(reach, windows).at(found)
    return struct(
        INTERVAL,
        {
            **_places(commits, rows),
            "last_offset": offset,
            "commits": known(windows.commits[found]),
            "lag": behind(reached, offset),
            "lag_known": reach.end_offset.valid[found],
            "start_ms": known(commits.time_ms[started]),
            "end_ms": windows.next_ms.at(found),
            "status": known(status[found]),
            "first_offset": commits.offset.at(started),
        },
    )


def _known_end(reach: Reach, windows: Windows) -> Column:
    is_last = ~windows.next_ms.valid
    ends, then = reach.end_offset, windows.next_end
    return Column(np.where(is_last, ends.values, then.values), np.where(is_last, ends.valid, then.valid))


def _candidates(commits: CommitRows, few: Thinned, reach: Reach, windows: Windows) -> pa.StructArray:
    rows = len(few.rows)
    from_ms = greatest(known(windows.run_ms), reach.not_beyond_ms)
    to_ms = windows.next_ms.or_else(known(np.full(rows, commits.known_until_ms or 0)))
    found = np.flatnonzero(windows.is_run_end & _may_stall(commits, few, reach, windows, from_ms.values, to_ms.values))
    of = few.rows[found]
    # a member that goes on after a hang may first commit the same offset again. The hang is no usual interval
    run = windows.run_commits[found]
    begin = found - run + 1
    usual = np.where((run < AGAIN_COMMITS) | (windows.commits[begin] == WINDOW), begin, found)
    return struct(
        CANDIDATE,
        {
            **_places(commits, of),
            "generation": commits.generation.at(of),
            "committed_offset": commits.offset.at(of),
            "commits": known(windows.commits[usual]),
            "first_ms": known(windows.first_ms[usual]),
            "last_ms": known(commits.time_ms[few.rows[usual]]),
            "again_ms": known(windows.first_ms[found]),
            "time_ms": known(commits.time_ms[of]),
            "longest_ms": windows.longest_ms.at(usual),
            "calm_ms": windows.calm_ms.at(usual),
            "silence_ms": windows.silence_ms.at(usual),
            "beyond_ms": reach.beyond_ms.at(found),
            "not_beyond_ms": reach.not_beyond_ms.at(found),
            "surely_ms": reach.surely_ms.at(found),
            "end_then": reach.end_then.at(usual),
            "known_end": _known_end(reach, windows).at(found),
            "end_ms": reach.end_ms.at(found),
            "run_ms": known(windows.run_ms[found]),
            "run_commits": known(windows.run_commits[found]),
            "earlier": known(windows.earlier[found]),
            "runs": known(windows.runs[found]),
            "is_last": ~windows.next_ms.valid[found],
            "from_ms": from_ms.at(found),
            "to_ms": to_ms.at(found),
            "until_ms": known(np.full(len(found), commits.known_until_ms or 0)),
        },
    )


def _may_stall(commits: CommitRows, few: Thinned, reach: Reach, windows: Windows, from_ms: Ints, to_ms: Ints) -> Mask:
    """Whether a partition may have stalled after a commit.

    The times of owners and the other commits of the member can only exclude some of these stalls. `stalls.is_long`
    decides for one time, with all facts.
    """
    beyond = reach.beyond_ms
    # the longest time in a window may be a silence of all groups, which `stalls.is_long` subtracts
    span_ms = commits.time_ms[few.rows] - windows.first_ms - windows.longest_ms.filled(0)
    usual_ms = USUAL_GAPS * span_ms / np.maximum(windows.commits - 2, 1)
    surely_ms = to_ms - np.where(beyond.valid, np.maximum(from_ms, beyond.values), from_ms)
    is_last = ~windows.next_ms.valid
    silent_ms = np.where(is_last & ~reach.not_beyond_ms.valid, to_ms - from_ms, surely_ms)
    enough = (windows.commits == WINDOW) | (is_last & (windows.commits > 1))
    is_long = (surely_ms >= np.maximum(SURELY_MS, usual_ms)) | (enough & (silent_ms >= np.maximum(SETTLE_MS, usual_ms)))
    is_long |= surely_ms >= np.maximum(BESIDE_MS, usual_ms)
    found: Mask = beyond.valid & (to_ms - from_ms >= STILL_MS) & is_long
    # without a known end, only an offset that is committed very often, and moved before, may be a stall
    was_moving = (windows.earlier >= MOVED_BEFORE) & (windows.runs >= MOVED * windows.earlier)
    # shorter ones show that a member reads its partitions in turn (`stalls`)
    is_repeated = (windows.run_commits >= REPEATED) & (to_ms - windows.run_ms >= STILL_MS)
    return found | (~reach.end_offset.valid & was_moving & is_repeated)


def _member_commits(commits: CommitRows, few: Thinned, reach: Reach, windows: Windows) -> pa.StructArray:
    """The progress of each member of a group. Commits without a member count as those of one more member."""
    rows = few.rows[windows.is_run_start]
    group, member = commits.group.at(rows), commits.member_id.at(rows)
    time_ms, beyond = commits.time_ms[rows], reach.beyond_ms.at(np.flatnonzero(windows.is_run_start))
    behind_ms = np.where(beyond.valid, np.maximum(time_ms - beyond.values, 0), 0)
    who = Column(member.numbers.filled(-1), np.ones(len(rows), np.bool_))
    order = sorted_rows(group.numbers.values, who.values, time_ms)
    group, member, who = group.at(order), member.at(order), who.at(order)
    time_ms, behind_ms = time_ms[order], behind_ms[order]
    is_new = begins(group.numbers, who)
    is_first = is_new | begins(known(time_ms // SPAN_MS))
    is_last = np.append(is_first[1:], True)[: len(order)]
    kept = np.flatnonzero(is_first | is_last)
    starts = np.flatnonzero(is_new)
    bounds = np.append(np.searchsorted(kept, starts), len(kept)).astype(np.int32)
    both = np.column_stack((time_ms[kept], behind_ms[kept])).ravel()
    progress = pa.ListArray.from_arrays(pa.array(2 * bounds), pa.array(both))
    return pa.StructArray.from_arrays(
        [group.at(starts).array(), member.at(starts).array(), progress], fields=list(MEMBER_COMMITS)
    )
