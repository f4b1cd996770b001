from __future__ import annotations

import sys

import pytest

from muster.coordinator.cli import main


def test_without_spark_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for name in [name for name in sys.modules if name.startswith("muster.pipeline.analyze")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("pyspark.")]:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["analyze", "muster-data"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("muster analyze: it needs Spark, and pyspark")
    assert told.endswith("is not there: pip install 'muster-kafka[spark]'\n")


def test_what_makes_no_sense_is_told_before_spark_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "muster.pipeline.analyze", None)
    assert main(["analyze", "muster-data", "--format", "pdf"]) == 2
    assert capsys.readouterr().err == "muster analyze: --format pdf: 'pdf' is none of html, parquet, csv, json\n"
