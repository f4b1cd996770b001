"""Replaces segments by the compacted segment that was made from them, in three steps as Kafka does.

A crash at any moment leaves either the old segments or the new one. The new file is `.cleaned` while it is written,
`.swap` once it is complete, and then has its own name.

Steps 1 and 3 work on files, in a thread. Step 2 changes the log in memory, on the event loop:

1. `commit`: writes the indexes and the end offset of the replaced segments. Then `.log.cleaned` becomes `.log.swap`.
   From here on a start finishes the swap (`leftovers`).
2. `LogSegments.replace`: readers go on in the `.log.swap`, which is held open.
3. `finish`: the old files are removed, and the new files get their names. Then `Segment.settle`.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.coordinator.log.segments.cleaned_file import CleanedFile
from muster.coordinator.log.segments.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    REPLACES_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    encode_replaces,
)
from muster.coordinator.log.segments.transaction_index import ENTRY_SIZE, TransactionIndex, encode
from muster.coordinator.log.storage.interfaces import Storage


def commit(storage: Storage, directory: str, cleaned: CleanedFile, end_offset: int) -> None:
    """Make `cleaned` the valid segment for all offsets from its base offset to `end_offset`.

    Raises OSError: the old segments stay valid then.
    """
    name = cleaned.name
    storage.save(name + INDEX_SUFFIX + SWAP_SUFFIX, cleaned.index.encode(), sync=True)
    storage.save(name + TIME_INDEX_SUFFIX + SWAP_SUFFIX, cleaned.time_index.encode(), sync=True)
    if cleaned.aborted:
        entries = b"".join(map(encode, cleaned.aborted))
        storage.save(name + TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX, entries, sync=True)
    storage.save(name + REPLACES_SUFFIX, encode_replaces(end_offset), sync=True)
    storage.rename(name + LOG_SUFFIX + CLEANED_SUFFIX, name + LOG_SUFFIX + SWAP_SUFFIX)
    storage.sync_directory(directory)


def transaction_index(storage: Storage, cleaned: CleanedFile) -> TransactionIndex | None:
    """Return the transaction index of a compacted segment that is valid already. Raises OSError."""
    if not cleaned.aborted:
        return None
    file = storage.file(cleaned.name + TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX)
    index = TransactionIndex(file, len(cleaned.aborted) * ENTRY_SIZE)
    for _ in index.check(cleaned.base_offset):
        pass
    return index


def drop(storage: Storage, cleaned: CleanedFile) -> None:
    """Remove the files of a compacted segment that is not valid."""
    cleaned.file.close()
    name = cleaned.name
    log = LOG_SUFFIX
    for suffix in (log + SWAP_SUFFIX, log + CLEANED_SUFFIX, INDEX_SUFFIX + SWAP_SUFFIX, TIME_INDEX_SUFFIX + SWAP_SUFFIX,
                   TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX, REPLACES_SUFFIX):  # fmt: skip
        storage.remove(name + suffix)


def finish(storage: Storage, directory: str, name: str, replaced: Sequence[str]) -> None:
    """Remove the files of the segments `replaced` (paths without suffix) and give those of `name` their names.

    It does nothing when opening the log again has done that meanwhile. Both hold `PartitionFolders.files_lock`.
    """
    swap_name = (name + LOG_SUFFIX + SWAP_SUFFIX).removeprefix(f"{directory}/")
    names = {entry.name for entry in storage.entries(directory)}
    if swap_name not in names:
        return
    for old in replaced:
        for suffix in SUFFIXES:
            if old != name or suffix != SNAPSHOT_SUFFIX:  # the state of producers before the segment is unchanged
                storage.remove(old + suffix)
    storage.sync_directory(directory)
    has_aborted = swap_name.replace(LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX) in names
    indexes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, *([TRANSACTION_INDEX_SUFFIX] if has_aborted else []))
    for suffix in (*indexes, LOG_SUFFIX):
        storage.rename(name + suffix + SWAP_SUFFIX, name + suffix)
    storage.sync_directory(directory)
    storage.remove(name + REPLACES_SUFFIX)
