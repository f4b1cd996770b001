from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from muster.pipeline.analyze import Analysis, main, run, summary
from muster.pipeline.arguments import BadArgument
from muster.pipeline.schema import RAW
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.stage import Source
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.wanted import Wanted as Chosen
from muster.simulation.sample.writing import Wanted, write
from tests.pipeline.sources.logs import batch, marker, write_segment
from tests.simulation.sample.reading import truth

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three groups for an hour."""
    directory = tmp_path_factory.mktemp("log")
    write(directory, Wanted(groups=3, hours=1))
    return str(directory)


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, log: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Analysis]:
    out = tmp_path_factory.mktemp("out")
    return out, run(spark, Source(path=log), str(out), formats=("html", "parquet"), settings=())


def test_an_analysis_writes_every_table(analysed: tuple[Path, Analysis], log: str) -> None:
    out, analysis = analysed
    for name, table in analysis.tables.items():
        assert table.columns == TABLES[name].names
        assert list((out / "tables" / name).glob("*.parquet"))
    assert analysis.tables["generations"].where("group = 'zombie-1'").count() > 2
    assert analysis.about.has_events
    assert sum(analysis.about.rows.values()) == sum(batch.num_rows for batch in read_segments(log))
    assert not (out / ".stage").exists()


def test_an_analysis_finds_the_transactions(analysed: tuple[Path, Analysis], log: str) -> None:
    meant = Counter((row["transactional_id"], row["outcome"], row["cause"]) for row in truth(Path(log))["transaction"])
    rows = analysed[1].tables["transactions"].where("end_ms is not null").collect()
    assert Counter((row["transactional_id"], row["outcome"], row["cause"]) for row in rows) == meant
    assert {(row["source"], row["offsets"], *row["groups"]) for row in rows} == {("events", 1, "exactly-once")}
    assert "By transactional id, the most aborted first" in (analysed[0] / "report.html").read_text(encoding="utf-8")


def rows_of(table: pa.Table) -> list[str]:
    """The rows of a table in one order. Sums of fractions depend on the order of the rows, so they are rounded."""
    rounded = (json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())
    return sorted(re.sub(r"\d+\.\d{7,}", lambda one: f"{float(one[0]):.6f}", row) for row in rounded)


def test_an_analysis_without_spark_writes_the_same_tables_and_page(
    analysed: tuple[Path, Analysis], log: str, tmp_path: Path
) -> None:
    here = run(None, Source(path=log), str(tmp_path), settings=())
    assert here.about == analysed[1].about
    assert list(here.tables) == list(analysed[1].tables)
    for name in here.tables:
        ours, theirs = (parquet.read_table(out / "tables" / name) for out in (tmp_path, analysed[0]))
        assert ours.schema.names == theirs.schema.names
        assert facts_of(ours.schema) == facts_of(theirs.schema), name
        assert rows_of(ours) == rows_of(theirs), name
    for page in analysed[0].glob("*.html"):
        assert (tmp_path / page.name).read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    assert {one.name for one in tmp_path.iterdir()} == {one.name for one in analysed[0].iterdir()}


def facts_of(schema: pa.Schema) -> list[tuple[str, str, object]]:
    """The columns of a file, with their types and comments. (Spark finds that parts of some lists are never null.)"""
    said = json.loads(schema.metadata[b"org.apache.spark.sql.parquet.row.metadata"])
    comments = [(one["name"], one["metadata"]) for one in said["fields"]]
    types = [str(kind).replace(" not null", "") for kind in schema.types]
    return [(name, kind, comment) for (name, comment), kind in zip(comments, types, strict=True)]


def test_two_times_and_two_analyses_are_compared_without_spark(log: str, tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    some = run(None, Source(path=log), first, settings=(), compare=1_767_223_800_000).tables["comparison"]
    assert some.count() == 4
    again = run(None, Source(path=log), second, settings=(), compare=first)
    assert again.tables["comparison"].count() == 4
    with pytest.raises(BadArgument, match="the --out of an earlier analysis, with its tables in Parquet"):
        run(None, Source(path=log), second, compare=str(tmp_path))


def test_a_part_of_a_log_is_analysed_without_spark(log: str, tmp_path: Path) -> None:
    wanted = Chosen(since_ms=1_767_223_800_000, groups=("zombie-?",))
    found = run(None, Source(path=log), str(tmp_path), wanted=wanted, settings=())
    assert {row["group"] for row in found.tables["verdicts"].collect()} == {"zombie-1"}
    assert found.about.groups == ("zombie-?",)
    with pytest.raises(NoSource, match="the log has nothing that was asked for"):
        run(None, Source(path=log), str(tmp_path), wanted=Chosen(groups=("nobody",)))


def test_only_a_data_directory_is_analysed_without_spark(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only a data directory can be analysed"):
        run(None, Source(kafka={"bootstrap.servers": "h:1"}), str(tmp_path))


def test_the_notebook_runs(
    analysed: tuple[Path, Analysis], log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cells of the notebook run one after the other, on the analysis that exists already."""
    monkeypatch.setenv("MUSTER_LOG", log)
    monkeypatch.setattr("muster.pipeline.analyze.run", lambda *_, **__: analysed[1])
    notebook = json.loads((EXAMPLES / "explain.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert log in capsys.readouterr().out
    assert names["dearest"].count() > 2
    assert names["history"].count() > 1
    assert names["by_cause"].count() >= 1


def test_an_analysis_prints_its_summary(analysed: tuple[Path, Analysis], log: str) -> None:
    assert log in summary(analysed[1])


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 1) -> str:
    """The error sentence of an analysis that fails."""
    assert main(arguments) == status
    output = capsys.readouterr()
    assert output.out == ""
    [sentence] = output.err.splitlines()
    return sentence


def test_impossible_inputs_are_refused_before_spark_starts(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("muster.pipeline.on_spark.open_session", pytest.fail)
    nowhere, file = tmp_path / "nowhere", tmp_path / "rows.parquet"
    file.write_text("no table")
    out = ("--out", str(tmp_path / "out"))
    assert refused(capsys, str(nowhere), *out).startswith(f"analyze: {nowhere} does not exist: a data directory")
    assert f"{tmp_path} cannot be read: rows.parquet is no Parquet file" in refused(capsys, str(tmp_path), *out)
    (tmp_path / "empty").mkdir()
    assert " holds no segments of __consumer_offsets: give a broker" in refused(capsys, str(tmp_path / "empty"), *out)
    assert f"--out {file}/x: {file} is a file, where" in refused(capsys, log, "--out", f"{file}/x")
    assert "--master spark://127.0.0.1:1 cannot be" in refused(capsys, log, *out, "--master", "spark://127.0.0.1:1")
    for more in ((), ("--follow",)):
        sentence = refused(capsys, "--bootstrap-server", "127.0.0.1:1", *out, *more)
        assert sentence.startswith("analyze: 127.0.0.1:1 cannot be reached: Connect to")
    option = refused(capsys, "--bootstrap-server", "127.0.0.1:1", *out, "-X", "kafka.no=1", status=2)
    assert option.startswith('analyze: No such configuration property: "no"')
    assert not (tmp_path / "out").exists()


@pytest.fixture
def session_of_tests(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session for an analysis on the command line, which does not end the session."""
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr("muster.pipeline.on_spark.open_session", lambda *_, **__: spark)


@pytest.mark.usefixtures("session_of_tests")
def test_an_unreadable_log_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", str(tmp_path / "out"))
    whole = batch([(b"order-1", b"x" * 30)] * 5, 0)
    for name, data, sentence in (
        ("damaged", b"\xff" * 500, "(1 found, as in: .*no batch at 0"),
        ("torn", whole[:-1], "(1 found, as in: .*torn tail"),
        ("other", whole, "(5 found, as in: __consumer_offsets: unknown record type"),
        ("markers", marker(1, 0, 7), "holds no record of a group: all of it was deleted, compacted away or aborted"),
    ):
        write_segment(tmp_path / name, data)
        assert re.search(sentence.replace("(", "\\("), refused(capsys, str(tmp_path / name), *out))
    (tmp_path / "table").mkdir()
    row = {**dict.fromkeys(RAW.names), "topic": "orders", "partition": 0, "offset": 1, "timestamp_ms": 5}
    parquet.write_table(pa.Table.from_pylist([row], schema=RAW), tmp_path / "table" / "rows.parquet")
    assert "table has no row of __consumer_offsets: only a copy" in refused(capsys, str(tmp_path / "table"), *out)
    assert refused(capsys, str(tmp_path / "other"), "--out", "nowhere://x/y").startswith(
        "analyze: --out nowhere://x/y: nothing can be written there (org.apache.hadoop.fs.Unsupported"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "analyze: a SOURCE or --bootstrap-server HOST:PORT was expected, one of them; neither was given"),
        (["d", "--what-if", "assignor=best"], "analyze: --what-if: assignor 'best' is not known; it is one of range"),
        (["d", "--format", "pdf"], "analyze: --format pdf: 'pdf' is none of html, parquet, csv, json"),
    ],
)
def test_senseless_options_are_refused_with_status_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert sentence in output.err
    assert output.err.count("\n") == 1
    assert output.out == ""


def test_staged_files_are_removed_after_a_failure(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stage(_spark: SparkSession, _source: Source, folder: str, _wanted: object) -> None:
        (Path(folder) / "decoded").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.pipeline.on_spark.stage", stage)
    with pytest.raises(KeyboardInterrupt):
        run(spark, Source(path="log"), str(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


def test_an_interrupt_ends_an_analysis_without_a_traceback(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.pipeline.on_spark.open_session", interrupted)
    assert main([log, "--master", "local[1]"]) == 130
    assert capsys.readouterr().err == "analyze: stopped\n"
