"""The file `truth.jsonl`: what really happened in a sample, as its scripts meant it.

This module only writes the file. Each line is a JSON object. Its `kind` says which fields it has:

* `sample`: `seed`, `start`, `end`, `groups`, `hours`, `settings` of the server.
* `topic`: `topic`, `partitions`. For each partition: its `first` offset, since when it grows (`since`, ms), and its
  rate. These lines are at the end of the file, and have the final values. The end offset at a time is first + (time -
  since) * records_per_1000_s / 1000000.
* `group`: `group`, `story`, `about`, `topics`, `protocol`, `session_timeout_ms`, `commit_interval_ms`.
* `action`: `group`, `time`, `what` somebody did, `who` did it (`client_id`, `host`, `instance`), and `why`.
* `rebalance`: `group`, the `generation` after it, `cause`, `trigger` (a member), `acted`, `settled`, `owners`. The
  cause happened at `acted`, and every member knew its share at `settled`. `owners` has the partitions by client id and
  topic. It is null if this rebalance caused another one, and empty if the group was empty.
* `unfinished`: `group`, `cause`, `trigger`, `acted`: a rebalance that had not ended when the sample ended.
* `unplanned`: `group`, `generation`: a generation that no script meant. A sound sample has no such line.
* `regression`: `group`, `time`, `cause` (zombie, rewind, reset), `client_id`, `offsets`: [from, to] by topic and
  partition.
* `stall`: `group`, `begin`, `time` of the end, `client_id`, `how`: `silent` (no commits) or `stuck` (always the same
  offset).
* `refused`: `group`, `time`, `client_id`, `error`: a commit that came too late.
* `transaction`: `transactional_id`, `began`, `time`, `outcome` (committed, aborted), `cause`, `group`, `offsets`. The
  transaction had ended by `time`. The cause is client, timeout or new_producer. `offsets` is the number of offsets that
  it committed in the group.
* `fenced`: `transactional_id`, `time`, `client_id`, `error`: a producer that lost its id to another producer.
* `gone`: `group`, `time`, and `what`: `deleted`, `offsets_deleted` or `offsets_expired`. The first two were requested
  at that time, `offsets_deleted` for a `topic`. Offsets expire `retention_ms` after `since`, the last commit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO


class Truth:
    """An open file `truth.jsonl`."""

    def __init__(self, path: Path) -> None:
        self._stream: TextIO = path.open("x", encoding="utf-8")

    def write(self, kind: str, **facts: object) -> None:
        self._stream.write(json.dumps({"kind": kind, **facts}, ensure_ascii=False, separators=(",", ":")) + "\n")

    def close(self) -> None:
        self._stream.close()
