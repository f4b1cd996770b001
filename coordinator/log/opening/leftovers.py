"""What a crash leaves beside the segments of a log: interrupted writes, deletions, compactions. Put right before the
log is opened (Kafka: LogLoader.removeTempFilesAndCollectSwapFiles and completeSwapOperations).
"""

from __future__ import annotations

import contextlib

import structlog

from muster.coordinator.log.cleaning.cleaned_file import CLEANED_SUFFIX
from muster.coordinator.log.cleaning.swap import REPLACES_SUFFIX, SWAP_SUFFIX, decode_replaces
from muster.coordinator.log.opening.recovery import check_segment
from muster.coordinator.log.segments.segment import DELETED_SUFFIX, LOG_SUFFIX, SUFFIXES, Segment
from muster.coordinator.log.settings import LogConfig
from muster.coordinator.log.storage.interfaces import Entry, Storage

TEMPORARY_SUFFIX = ".tmp"
ASIDE_SUFFIX = ".aside"
"""Of a file that was taken out of a log, and is kept."""
_logger = structlog.get_logger("muster.log")
_DIGITS = 20
_LOG_SWAP = LOG_SUFFIX + SWAP_SUFFIX


def base_offset_of(name: str) -> int | None:
    """The base offset in the name of a segment's file; None for any other name."""
    digits, suffix = name[:_DIGITS], name[_DIGITS:]
    return int(digits) if len(digits) == _DIGITS and digits.isdigit() and suffix in SUFFIXES else None


def clear(storage: Storage, directory: str) -> None:
    """Remove what an interrupted deletion, write or compaction left; finish a swap that counts already."""
    names = {entry.name: entry for entry in storage.entries(directory) if not entry.is_directory}
    if all(base_offset_of(name) is not None or not is_leftover(name) for name in names):
        for name in _clear_orphans(storage, directory, list(names)):
            _logger.error("a segment is missing", path=f"{storage.root}/{directory}/{name}{LOG_SUFFIX}",
                          what="its index is there, and it is not: its records are gone unless a backup has the file",
                          what_to_do="stop, put the file back and start again")  # fmt: skip
        return
    for name in list(names):
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            storage.remove(f"{directory}/{names.pop(name).name}")
    for name in [name for name in names if name.endswith(_LOG_SWAP) and name[:_DIGITS].isdigit()]:
        _finish_swap(storage, directory, names, name)
    for name in list(names):
        if name.endswith(SWAP_SUFFIX):
            # an index whose segment has its name already, or never came to count: either is made anew
            storage.remove(f"{directory}/{name}")
            storage.remove(f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
            names.pop(name, None)
            names.pop(name.removesuffix(SWAP_SUFFIX), None)
        elif _is_note(name):
            storage.remove(f"{directory}/{name}")
    _clear_orphans(storage, directory, list(names))


def is_leftover(name: str) -> bool:
    """A file that only a change under way has."""
    return name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX, SWAP_SUFFIX)) or _is_note(name)


def _is_note(name: str) -> bool:
    """Of what a compacted segment replaces; a segment whose name was made longer is none."""
    return len(name) == _DIGITS + len(REPLACES_SUFFIX) and name.endswith(REPLACES_SUFFIX)


def _finish_swap(storage: Storage, directory: str, names: dict[str, Entry], swap: str) -> None:
    first = int(swap[:_DIGITS])
    bases = [base for name in names if name.endswith(LOG_SUFFIX) and (base := base_offset_of(name)) is not None]
    # one that is empty may have lost what it held, and replaces nothing that is there still
    whole_to = _end_of(storage, directory, names[swap]) if names[swap].size else None
    if whole_to is None and first in bases:
        # what it was made from is there still, and not damaged
        storage.rename(f"{directory}/{swap}", f"{directory}/{swap}{ASIDE_SUFFIX}")
        del names[swap]
        _logger.error("a compacted segment is damaged", path=f"{storage.root}/{directory}/{swap}{ASIDE_SUFFIX}",
                      what="the segments that it was made from are kept, and compacted again")  # fmt: skip
        return
    note = storage.load(f"{directory}/{swap[:_DIGITS]}{REPLACES_SUFFIX}")
    end = decode_replaces(note) if note is not None else None
    if whole_to is None:
        end = first  # nothing more goes for it
    elif end not in bases:  # Kafka's own have no note, and one that names no segment is damaged
        end = whole_to
    # the oldest first: a tombstone must not go before what it removed
    for name in sorted(names):
        base_offset = base_offset_of(name)
        if base_offset is not None and first <= base_offset < end:
            storage.remove(f"{directory}/{name}")
            del names[name]
    storage.sync_directory(directory)
    for suffix in (".index", ".timeindex", ".txnindex", LOG_SUFFIX):
        name = swap[:_DIGITS] + suffix
        entry = names.pop(name + SWAP_SUFFIX, None)
        if entry is not None:
            storage.rename(f"{directory}/{name}{SWAP_SUFFIX}", f"{directory}/{name}")
            names[name] = entry
    storage.sync_directory(directory)


def _end_of(storage: Storage, directory: str, entry: Entry) -> int | None:
    """The offset after the last batch of a compacted segment; None when it does not hold together."""
    base_offset = int(entry.name[:_DIGITS])
    segment = Segment(storage, f"{directory}/{entry.name}", base_offset, LogConfig(), 0)
    segment.file = storage.file(f"{directory}/{entry.name}")
    with contextlib.closing(segment.file):
        checked = check_segment(segment, entry.size, base_offset, lambda _: None)
    return None if checked.left else checked.next_offset


def _clear_orphans(storage: Storage, directory: str, names: list[str]) -> list[str]:
    """Indexes without their segment. The segments that there were.

    Whoever removes one gives its log another name first, and takes that away last.
    """
    orphans: dict[str, None] = {}
    logged = {name[:_DIGITS] for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        if base_offset_of(name) is not None and name[:_DIGITS] not in logged and not name.endswith(".snapshot"):
            storage.remove(f"{directory}/{name}")
            orphans[name[:_DIGITS]] = None
    return list(orphans)
