"""The file `truth.jsonl`: what really happened in a sample, as its scripts meant it. Writes; judges nothing.

One JSON object in a line, each with `kind`:

* `sample`: `seed`, `start`, `end`, `groups`, `hours`, `settings` of the server.
* `topic`: `topic`, `partitions`, and for each partition `first` offset, `since` when it grows (ms) and how fast; at the
  end of the file, as it was then: the end offset at a time is first + (time - since) * records_per_1000_s / 1000000.
* `group`: `group`, `story`, `about`, `topics`, `protocol`, `session_timeout_ms`, `commit_interval_ms`.
* `action`: `group`, `time`, `what` somebody did and `who` (`client_id`, `host`, `instance`), and `why`.
* `rebalance`: `group`, `generation` it led to, `cause`, `trigger` (who), `acted`: when that was done, `settled`: when
  every member knew its share, `owners`: partitions by client id and topic. `owners` is null when a further rebalance
  came of this one; no owners: the group was empty.
* `unfinished`: `group`, `cause`, `trigger`, `acted`: what had not come about when the sample ended.
* `unplanned`: `group`, `generation`: a generation that no script meant; there is none in a sound sample.
* `regression`: `group`, `time`, `cause` (zombie, rewind, reset), `client_id`, `offsets`: [from, to] by topic and
  partition.
* `stall`: `group`, `time` it ended, `begin`, `client_id`, `how`: `silent` (no commits) or `stuck` (the same offset each
  time).
* `refused`: `group`, `time`, `client_id`, `error`: a commit that came too late.
* `transaction`: `transactional_id`, when it `began`, `time` by which it has ended, `outcome` (committed, aborted),
  `cause` (client, timeout, new_producer), `group` and number of `offsets` committed in it.
* `fenced`: `transactional_id`, `time`, `client_id`, `error`: a producer whose id another one had taken over.
* `gone`: `group`, `time`, `what`: `deleted`, `offsets_deleted` (`topic`), both as asked for at that time, or
  `offsets_expired`: they are when `retention_ms` have passed `since` the last commit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO


class Truth:
    """One such file, open."""

    def __init__(self, path: Path) -> None:
        self._stream: TextIO = path.open("x", encoding="utf-8")

    def tell(self, kind: str, **facts: object) -> None:
        self._stream.write(json.dumps({"kind": kind, **facts}, ensure_ascii=False, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._stream.close()
