"""The Python code of the pages about the pipeline runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.live import Live
from tests.support.pasted_docs import parse

DOCS = Path(__file__).parents[2] / "docs"


def code_of(page: str) -> list[str]:
    """The blocks of Python on a page. Spark's own connector needs jars; `sources.test_connector` has it."""
    blocks = parse(page, (DOCS / page).read_text(encoding="utf-8"))
    return [one.text for one in blocks if one.language == "python" and 'format("kafka")' not in one.text]


def test_the_python_of_the_page_about_spark_runs(
    spark: SparkSession, live: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("muster.pipeline.session.open_session", lambda: spark)
    names: dict[str, Any] = {"password": "secret"}
    code = code_of("pipeline-spark.md")
    for text in code:
        own = text.replace("/var/lib/kafka", live.data_dir).replace("broker.example:9093", live.bootstrap)
        exec(compile(re.sub(r'\n *\.option\("kafka\..*', "", own), "pipeline-spark.md", "exec"), names)
    assert any("register(MusterSource)" in text for text in code)
    assert "commit" in capsys.readouterr().out
    assert names["rows"].count() > 0
