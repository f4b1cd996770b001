from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from muster.pipeline.schema import RAW
from muster.pipeline.sources.frame import check_table
from muster.pipeline.sources.segment_files import NoSource


def test_a_parquet_table_of_raw_rows_is_recognized(tmp_path: Path) -> None:
    parquet.write_table(RAW.empty_table(), tmp_path / "rows.parquet")
    (tmp_path / "_SUCCESS").touch()
    check_table(str(tmp_path))
    check_table(str(tmp_path / "rows.parquet"))
    # the names of folders may have what the files lack
    (tmp_path / "apart" / "partition=0").mkdir(parents=True)
    parquet.write_table(pa.table({"offset": [1]}), tmp_path / "apart" / "rows.parquet")
    check_table(str(tmp_path / "apart"))


def test_another_parquet_table_is_refused(tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(NoSource) as error:
            check_table(str(tmp_path))
        assert "\n" not in str(error.value)
        return str(error.value).removeprefix(str(tmp_path))

    (tmp_path / "_SUCCESS").touch()
    assert refused().startswith(
        " holds no Parquet file, though it is a table's folder: a table of raw rows in Parquet has"
    )
    rows = tmp_path / "rows.parquet"
    for data in (b"", b"hello", b"PAR1" + bytes(40) + b"PAR1", bytes(1_000)):
        rows.write_bytes(data)
        assert refused().startswith(" cannot be read: rows.parquet is no Parquet file (")
    parquet.write_table(pa.table({"offset": [1], "key": ["a"]}), rows)
    assert refused() == (
        " is no copy of a log: rows.parquet: rows of Kafka have no column partition, value, timestamp; "
        "there are offset, key"
    )
    row = {"partition": 1, "offset": 1, "timestamp": 1, "key": b"a", "value": "a"}
    parquet.write_table(pa.Table.from_pylist([row]), rows)
    assert refused() == (
        " is no copy of a log: rows.parquet: column value is string: it must be binary, as Kafka keeps it"
    )
