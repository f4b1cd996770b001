"""A follower's storage: folders that are written once under new names, and one manifest that names the folders in use.

The storage may be anywhere that Spark can write. The next start of a follower removes what a dead process left.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.follow.buckets import bucket_column, bucket_of
from muster.pipeline.follow.manifest import Manifest, NotOurs, folders, of_text, to_text
from muster.pipeline.frames import DataFrame, F, frame_of, is_here
from muster.pipeline.output import file_system, is_local, remove, write_text
from muster.pipeline.preflight import plain
from muster.pipeline.published import empty, published, published_here
from muster.pipeline.tables.schema import TABLES

KEPT: Final = ".follow"
"""The folder with the manifest and the staged log, beside the tables."""
BUCKET: Final = "bucket"
_IN_PATHS: Final = (BUCKET, "kind")
"""The columns of the staged log and of tables that only the paths of files have."""


class Store:
    """The folder of one follower.

    Two threads may change the manifest: the thread of the stream, and the one that makes tables.
    """

    def __init__(self, spark: SparkSession, out: str) -> None:
        self.spark = spark
        self.out = out.rstrip("/")
        self.root = f"{self.out}/{KEPT}"
        self.manifest = Manifest({})
        self.local = Path(plain(self.out)) if is_local(spark, self.out) else None
        """The path of the folder `out` if it is on this machine, otherwise None."""
        self._held: TextIO | None = None
        self._change = threading.Lock()
        self._run = uuid.uuid4().hex[:8]
        self._names = 0
        self._gone: list[tuple[str, str]] = []
        self._going: list[tuple[str, str]] = []

    def open(self, asked: dict[str, Any], since_ms: int | None, *, linked: bool) -> None:
        """Continue with the existing folder, or begin a new one. Raises NotOurs.

        `linked`: whether OUT/tables is to be a link (see `show`).
        """
        asked = json.loads(json.dumps(asked))
        self._lock()
        try:
            self._open(asked, since_ms, linked=linked)
        except BaseException:
            self.close()
            raise

    def _open(self, asked: dict[str, Any], since_ms: int | None, *, linked: bool) -> None:
        text = self.read_text(f"{self.root}/manifest.json")
        try:
            self.manifest = Manifest(asked, since_ms=since_ms) if text is None else of_text(text)
        except NotOurs as error:
            raise NotOurs(f"{self.root}: {error}") from error
        if self.manifest.asked != asked:
            was = ", ".join(f"{name}={value}" for name, value in self.manifest.asked.items())
            raise NotOurs(f"{self.out} follows something else ({was}): ask for the same, or give another --out")
        shown = None if self.local is None else self.local / "tables"
        if linked and shown is not None and shown.exists() and not shown.is_symlink():
            raise NotOurs(f"{self.out}/tables was left by an analysis that does not follow: give another --out")
        self.change(lambda manifest: manifest)
        self._sweep_all()

    def _lock(self) -> None:
        """Lock the folder against a second follower, until this process ends. This works only on this machine."""
        if self.local is None:
            return
        (self.local / KEPT).mkdir(parents=True, exist_ok=True)
        self._held = (self.local / KEPT / "lock").open("w")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise NotOurs(f"{self.out} is the folder of another process that follows: give another --out") from None

    def close(self) -> None:
        """Release the lock of the folder."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def change(self, step: Callable[[Manifest], Manifest]) -> Manifest:
        """Replace the manifest by what `step` makes of it, all at once."""
        with self._change:
            before, after = self.manifest, step(self.manifest)
            self.replace(f"{self.root}/manifest.json", to_text(after))
            self.manifest = after
            self._gone += sorted(folders(before) - folders(after))
            return after

    # ---- folders

    def name(self, kind: str) -> str:
        """A name that no folder had before, of this process or of an earlier one."""
        self._names += 1
        return f"{kind}={self._names:09d}-{self._run}"

    def folder(self, table: str, name: str) -> str:
        """The path of a folder of a table, or of the staged log (LOG)."""
        return f"{self.root}/data/{table}/{name}"

    def buckets(self, table: str, name: str) -> dict[str, str]:
        """The buckets of a folder that was written by bucket, and their parts."""
        parts = (part for part in self._list(self.folder(table, name)) if part.startswith(f"{BUCKET}="))
        return {part.removeprefix(f"{BUCKET}="): f"{name}/{part}" for part in sorted(parts)}

    def read(self, table: str, names: Iterable[str], schema: pa.Schema) -> DataFrame:
        """The rows of some folders of a table."""
        if is_here():
            places = [Path(plain(self.folder(table, name))) for name in names]
            found = [_rows_of(file, schema) for place in places for file in sorted(place.rglob("*.parquet"))]
            return frame_of(pa.concat_tables([*found, schema.empty_table()]))
        kind = from_arrow_schema(schema)
        paths = [self.folder(table, name) for name in names]
        if not paths:
            return self.spark.createDataFrame([], kind)
        reader = self.spark.read.schema(kind).option("basePath", f"{self.root}/data/{table}")
        return reader.parquet(*paths).select(*schema.names)

    def write(self, table: str, name: str, rows: DataFrame, *, by_bucket: bool = False) -> None:
        """Write rows of a table into a folder (of `name`), in one file, or by the bucket of the group."""
        if is_here():
            self._write_here(table, Path(plain(self.folder(table, name))), rows, by_bucket)
        elif by_bucket:
            placed = published(rows, table).withColumn(BUCKET, bucket_column(F.col("group")))
            placed.write.partitionBy(BUCKET).parquet(self.folder(table, name))
        else:
            published(rows, table).coalesce(1).write.parquet(self.folder(table, name))

    def _write_here(self, table: str, folder: Path, rows: DataFrame, by_bucket: bool) -> None:
        made = published_here(rows.toArrow().cast(TABLES[table]), table)
        parts = {folder: made}
        if by_bucket:
            buckets = pa.array(map(bucket_of, made.column("group").to_pylist()), pa.int32())
            parts = {folder / f"{BUCKET}={one}": made.filter(pc.equal(buckets, one)) for one in buckets.unique()}
        for place, part in parts.items():
            place.mkdir(parents=True)
            parquet.write_table(part, place / "part-00000.snappy.parquet")

    def tables(self, manifest: Manifest | None = None) -> dict[str, DataFrame]:
        """The tables of a manifest (None: of the current one)."""
        found = (self.manifest if manifest is None else manifest).tables
        return {name: self.read(name, buckets.values(), TABLES[name]) for name, buckets in found.items()}

    def places(self, manifest: Manifest) -> dict[str, list[str]]:
        """The paths of the folders of each table."""
        return {
            name: [self.folder(name, part) for part in buckets.values()] for name, buckets in manifest.tables.items()
        }

    def discard(self, unused: Mapping[str, Mapping[str, str]]) -> None:
        """Remove folders that no manifest has named. `unused`: the folders of each table, by bucket."""
        names = {(table, name.partition("/")[0]) for table, buckets in unused.items() for name in buckets.values()}
        for table, name in names:
            self._remove(table, name)

    def sweep(self) -> None:
        """Remove folders that were out of use at the last call of `sweep`. Their readers have finished since then."""
        gone, self._gone, self._going = self._going, [], self._gone
        used = folders(self.manifest)
        for table, name in gone:
            if (table, name) not in used:
                self._remove(table, name)

    def _remove(self, table: str, name: str) -> None:
        if self.local is None:
            remove(self.spark, self.folder(table, name))
        else:
            # without hundreds of calls into Java for each version of the tables
            shutil.rmtree(plain(self.folder(table, name)), ignore_errors=True)

    def _sweep_all(self) -> None:
        """Remove all folders that the manifest does not name."""
        used = folders(self.manifest)
        for table in self._list(f"{self.root}/data"):
            wanted = {name.partition("/")[0] for of, name in used if of == table}
            for name in self._list(f"{self.root}/data/{table}"):
                if name not in wanted:
                    self._remove(table, name)

    # ---- for readers that do not know of the manifest

    def show(self, manifest: Manifest) -> None:
        """If OUT is on this machine, make OUT/tables a link to folders of hard links, one for each table.

        The link switches from the old tables to the new ones in one step.
        """
        if self.local is None:
            return
        views = self.local / KEPT / "views"
        view = views / f"{manifest.version:09d}"
        shutil.rmtree(view, ignore_errors=True)
        for name, parts in manifest.tables.items():
            shown = view / name
            shown.mkdir(parents=True)
            for bucket, part in parts.items():
                for file in sorted((self.local / KEPT / "data" / name / part).glob("*.parquet")):
                    os.link(file, shown / f"{bucket}-{file.name}")
            if not any(shown.iterdir()):
                # a table without rows must be readable too
                parquet.write_table(empty(name), shown / "empty.parquet")
        link = self.local / KEPT / "tables.new"
        link.unlink(missing_ok=True)
        link.symlink_to(view.relative_to(self.local))
        link.replace(self.local / "tables")
        for old in sorted(views.iterdir())[:-2]:
            shutil.rmtree(old, ignore_errors=True)

    # ---- files on any file system

    def read_text(self, path: str) -> str | None:
        """The text of a small file; None if the file does not exist."""
        if self.local is not None:
            file = Path(plain(path))
            return file.read_text(encoding="utf-8") if file.is_file() else None
        system, where = file_system(self.spark, path)
        if not system.exists(where):
            return None
        stream = system.open(where)
        try:
            text: str = self._jvm().org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()

    def replace(self, path: str, text: str) -> None:
        """Replace the text of a small file, in one step."""
        if self.local is None:
            write_text(self.spark, f"{path}.new", text)
            self._rename(f"{path}.new", path)
            return
        file = Path(plain(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f"{file.name}.new")
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(file)

    def _rename(self, old: str, new: str) -> None:
        hadoop = self._jvm().org.apache.hadoop.fs
        how = getattr(hadoop, "Options$Rename")
        gateway: Any = self.spark.sparkContext._gateway
        options = gateway.new_array(how, 1)
        options[0] = how.OVERWRITE
        system, there = file_system(self.spark, new)
        context = hadoop.FileContext.getFileContext(system.getUri(), self.spark.sparkContext._jsc.hadoopConfiguration())
        context.rename(hadoop.Path(old), there, options)

    def _list(self, path: str) -> list[str]:
        """The names in a folder; empty if the folder does not exist."""
        if self.local is not None:
            place = Path(plain(path))
            return sorted(one.name for one in place.iterdir()) if place.is_dir() else []
        system, where = file_system(self.spark, path)
        if not system.exists(where):
            return []
        return sorted(str(one.getPath().getName()) for one in system.listStatus(where))

    def _jvm(self) -> Any:
        return self.spark.sparkContext._jvm


def _rows_of(file: Path, schema: pa.Schema) -> pa.Table:
    """The rows of a file with the columns of a schema. The path has some of them."""
    with parquet.ParquetFile(file) as stream:
        rows = stream.read([name for name in stream.schema_arrow.names if name in schema.names])
    known = dict(part.split("=", 1) for part in file.parts if part.partition("=")[0] in _IN_PATHS)

    def column(field: pa.Field) -> pa.ChunkedArray | pa.Array:
        if field.name in rows.column_names:
            return rows.column(field.name).cast(field.type)
        if field.name in known:
            return pa.repeat(known[field.name], rows.num_rows).cast(field.type)
        return pa.nulls(rows.num_rows, field.type)

    return pa.table([column(field) for field in schema], schema=schema)


def saved(spark: SparkSession, out: str) -> dict[str, DataFrame]:
    """The tables that a follower left in `out`; the follower may still be running. Raises NotOurs."""
    store = Store(spark, out)
    text = store.read_text(f"{store.root}/manifest.json")
    if text is None:
        raise NotOurs(f"{out} holds no tables of a follower")
    return store.tables(of_text(text))
