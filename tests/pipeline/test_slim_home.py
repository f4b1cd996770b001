"""The Spark home of a session for a small analysis."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest

from muster.pipeline.spark_home import slim_home

INSTALLED = Path(pyspark.__file__).parent


def test_the_slim_home_omits_only_unused_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with slim_home():
        home = Path(os.environ["SPARK_HOME"])
        jars = {jar.name for jar in (home / "jars").iterdir()}
        assert all(jar.is_file() for jar in (home / "jars").iterdir())
        assert (home / "bin" / "spark-submit").samefile(INSTALLED / "bin" / "spark-submit")
    assert "SPARK_HOME" not in os.environ
    # Java reads jars as long as it runs
    assert home.is_dir()
    left_out = {jar.name for jar in (INSTALLED / "jars").glob("*.jar")} - jars
    assert {name.split("_2")[0] for name in left_out} == {"spark-mllib", "spark-hive", "spark-hive-thriftserver"}


def test_a_named_spark_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(INSTALLED))
    with slim_home():
        assert os.environ["SPARK_HOME"] == str(INSTALLED)
    assert os.environ["SPARK_HOME"] == str(INSTALLED)
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").touch()
    with slim_home():
        assert "SPARK_HOME" not in os.environ


def test_the_usual_spark_home_is_used_without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("a privilege is not held")

    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(Path, "symlink_to", refuse)
    with slim_home():
        assert "SPARK_HOME" not in os.environ
