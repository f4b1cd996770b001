"""A check of a table of raw rows in Parquet files before Spark starts: is it Parquet, and has it the columns?"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import fs, parquet

from muster.pipeline.sources.frame import lacking_columns
from muster.pipeline.sources.segment_files import NoSource, file_system

_LOOKED_AT: Final = 64
"""So many files of a table at most: a store that is far away answers late."""
_BYTES: Final = (pa.binary(), pa.large_binary(), pa.null())
_EXPECTED: Final = "a table of raw rows in Parquet has columns partition, offset, timestamp, key, value"


def check_table(path: str) -> None:
    """Whether a folder with Parquet files, or one file, can be a table of raw rows. Raises NoSource."""
    system, root = file_system(path)
    files, folders = _files(system, root)
    if not files and not folders:
        raise NoSource(f"{path} holds no Parquet file, though it is a table's folder: {_EXPECTED}")
    for file in files[:_LOOKED_AT]:
        try:
            with system.open_input_file(file.path) as stream:
                schema = parquet.read_schema(stream)
        except (pa.ArrowException, OSError) as error:
            why = str(error).partition(".")[0]
            raise NoSource(
                f"{path} cannot be read: {file.base_name} is no Parquet file ({why}): {_EXPECTED}"
            ) from error
        # what the names of folders say counts as columns
        if not folders and (lacking := lacking_columns(schema.names)):
            there = ", ".join(schema.names)
            raise NoSource(f"{path} is no copy of a log: {file.base_name}: {lacking}; there are {there}")
        for name in ("key", "value"):
            if name in schema.names and schema.field(name).type not in _BYTES:
                told = f"column {name} is {schema.field(name).type}: it must be binary, as Kafka keeps it"
                raise NoSource(f"{path} is no copy of a log: {file.base_name}: {told}")


def _files(system: fs.FileSystem, root: str) -> tuple[list[fs.FileInfo], list[fs.FileInfo]]:
    """The files that Spark would read, and the folders in which it would look for more."""
    info = system.get_file_info(root)
    if info.type == fs.FileType.File:
        return [info], []
    entries = [one for one in system.get_file_info(fs.FileSelector(root)) if one.base_name[0] not in "._"]
    files = [one for one in entries if one.type == fs.FileType.File]
    return files, [one for one in entries if one.type == fs.FileType.Directory]
