"""What an analysis needs of the engine that makes its tables: Spark (`on_spark`), or this process (`here`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from muster.pipeline.arguments import BadArgument
from muster.pipeline.frames import DataFrame
from muster.pipeline.kept import ParquetTable
from muster.pipeline.sources.source import Source
from muster.pipeline.staged import Staged
from muster.pipeline.wanted import Wanted


class Engine(Protocol):
    """Reads a source, makes tables, and writes files."""

    def running(self) -> AbstractContextManager[None]:
        """The block in which the whole analysis runs."""

    def making_facts(self) -> AbstractContextManager[None]:
        """The block in which the tables of facts are made."""

    def check_place(self, out: str) -> None:
        """Check that a folder can be written into. Nothing is left in the folder. Raises NotUsable."""

    def stage(self, source: Source, folder: str, wanted: Wanted) -> Staged:
        """Read a source. `folder` may hold files until the analysis ends."""

    def earlier(self, folder: str, names: Sequence[str]) -> Sequence[DataFrame]:
        """Some tables that an earlier analysis wrote into its `--out`. Raises BadArgument."""

    def write(self, rows: DataFrame, name: str, folder: str, beside: str, texts: Sequence[str]) -> DataFrame:
        """Write a table as Parquet into `folder`, and in text formats beside the path `beside`. Returns its rows."""

    def kept(self, folders: Mapping[str, Sequence[str]]) -> dict[str, ParquetTable]:
        """The written tables by their names. Each consists of the files in some folders."""

    def write_pages(self, out: str, pages: Mapping[str, str]) -> str:
        """Write pages in place of the old ones. Returns the path of the first page."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its content. Nothing happens if it does not exist."""

    def forget(self) -> None:
        """Forget what was kept for this analysis."""


def no_earlier(folder: str) -> BadArgument:
    """The error for a folder that has no tables of an earlier analysis."""
    return BadArgument(
        f"--compare {folder}: the --out of an earlier analysis, with its tables in Parquet, was expected"
    )
