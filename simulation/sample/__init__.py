"""A sample of a group log: a day of many groups, made from a seed.

It runs in virtual time, on the server's own shards and log. Users get it with `muster log sample` (docs/pipeline.md).
Tests and benchmarks of the pipeline use it too. `writing.write` makes a Muster data directory with a file
`truth.jsonl`. This file has what happened as the scripts of the groups meant it, not as the server reported it. The
same seed and the same end give the same bytes.
"""
