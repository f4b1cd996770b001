from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from muster.pipeline import spark_home
from muster.pipeline.spark_home import NoJava, java_home


def fake_java(home: Path, version: str) -> Path:
    """A command that reports this version, and otherwise prints its arguments."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    answer = f"echo 'openjdk version \"{version}\" 2025' >&2"
    command.write_text(f'#!/bin/sh\nif [ "$1" = -version ]; then {answer}; else printf "%s\\n" "$@"; fi\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return command


def test_a_java_home_that_is_new_enough_is_used(tmp_path: Path) -> None:
    fake_java(tmp_path / "new", "21.0.1")
    fake_java(tmp_path / "path", "17.0.2")
    environment = {"JAVA_HOME": str(tmp_path / "new"), "PATH": f"{tmp_path}/path/bin:/bin:/usr/bin"}
    assert java_home(environment) == str(tmp_path / "new")


def test_java_on_the_path_is_used_without_a_new_enough_java_home(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    fake_java(tmp_path / "path", "17.0.2")
    path = f"{tmp_path}/path/bin:/bin:/usr/bin"
    assert java_home({"PATH": path}) is None
    assert java_home({"PATH": path, "JAVA_HOME": str(tmp_path / "old")}) == str(tmp_path / "path")


def test_the_bundled_java_is_used_if_there_is_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = fake_java(tmp_path / "with a space", "21")
    monkeypatch.setattr(spark_home, "_bundled", lambda: bundled)
    home = java_home({"PATH": str(tmp_path / "empty")})
    assert home is not None
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Xmx1g", "--add-opens=x", ""]
    said = subprocess.run([Path(home) / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert said.stdout.split("\n")[:-1] == ["-cp", "a b", "-Xmx1g", "--add-opens=x", ""]


def test_a_missing_java_is_an_error_that_says_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_home, "_bundled", lambda: None)
    fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava, match=r"Java 17 or later \(none was found\): install one"):
        java_home({"PATH": str(tmp_path)})
    with pytest.raises(NoJava, match=r"JAVA_HOME=/nowhere has no java that runs; .*/old/bin/java is Java 11"):
        java_home({"PATH": f"{tmp_path}/old/bin:/bin:/usr/bin", "JAVA_HOME": "/nowhere"})


def test_the_bundled_java_starts() -> None:
    bundled = spark_home._bundled()
    assert bundled is not None
    assert (spark_home._version(bundled) or 0) >= spark_home.OLDEST
