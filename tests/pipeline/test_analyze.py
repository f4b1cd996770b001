from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from muster.coordinator.sample.writing import Wanted, write
from muster.pipeline.analyze import Analysis, main, reason, run, summary
from muster.pipeline.facts.schema import TABLES
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.stage import Source

EXAMPLES = Path(__file__).parents[2] / "examples"

# some forty jobs, each of which costs the same however small it is
pytestmark = pytest.mark.timeout(300)


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


def test_every_table_is_there(analysed: tuple[Path, Analysis], log: str) -> None:
    out, analysis = analysed
    for name, table in analysis.tables.items():
        assert table.columns == TABLES[name].names
        assert list((out / "tables" / name).glob("*.parquet"))
    assert analysis.tables["generations"].where("group = 'zombie-1'").count() > 2
    assert analysis.about.has_events
    assert sum(analysis.about.rows.values()) == sum(batch.num_rows for batch in read_segments(log))
    assert not (out / ".stage").exists()


def test_the_notebook(
    analysed: tuple[Path, Analysis], log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cells run one after the other; the analysis is the one that was made already."""
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


def test_a_summary_for_the_terminal(analysed: tuple[Path, Analysis], log: str) -> None:
    assert log in summary(analysed[1])


def test_there_is_nothing_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("muster.pipeline.analyze.open_session", pytest.fail)
    assert main([str(tmp_path / "nowhere")]) == 2
    assert main([str(tmp_path)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"analyze: {tmp_path / 'nowhere'} is not there: a data directory")
    assert second.startswith(f"analyze: {tmp_path} holds no segments of __consumer_offsets: give a broker's")


def test_what_spark_says_in_one_line() -> None:
    java = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: no such master\n\tat a.b(C.java)"
    assert reason(RuntimeError(java)) == "org.apache.spark.SparkException: no such master"
    assert reason(RuntimeError("\n[NO_COLUMN] none;\nmore")) == "[NO_COLUMN] none;"
    assert reason(RuntimeError()) == "RuntimeError"
    full = "Caused by: java.io.IOException: No space left on device"
    assert reason(RuntimeError(f"{java}\nCaused by: x.Y: task failed\n\tat a.b(C.java)\n{full}\n\t... 9 more")) == (
        "org.apache.spark.SparkException: no such master: java.io.IOException: No space left on device"
    )
    assert reason(RuntimeError("one\nCaused by: one")) == "one"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "analyze: a SOURCE or --bootstrap-server HOST:PORT was expected, one of them; neither was given"),
        (["d", "--what-if", "assignor=best"], "analyze: assignor 'best' is not known; it is one of range"),
        (["d", "--format", "pdf"], "analyze: --format pdf: 'pdf' is none of html, parquet, csv, json"),
    ],
)
def test_what_makes_no_sense(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_what_was_staged_goes_when_it_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stage(_spark: SparkSession, _source: Source, folder: str, _wanted: object) -> None:
        (Path(folder) / "decoded").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.pipeline.analyze.stage", stage)
    with pytest.raises(KeyboardInterrupt):
        run(spark, Source(path="log"), str(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


def test_an_interrupt_is_no_failure_of_the_code(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: str | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.pipeline.analyze.open_session", interrupted)
    assert main([log]) == 130
    assert capsys.readouterr().err == "analyze: stopped\n"
