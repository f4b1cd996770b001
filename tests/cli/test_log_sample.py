from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli import main
from muster.cli.log.sample import wanted_of


def test_log_sample_writes_a_readable_data_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "sample"
    assert main(["log", "sample", str(where), "--groups", "2", "--hours", "1", "--end", "2026-01-31T12:00"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{where}: 2 groups, one more with transactions, ")
    assert first.endswith("2026-01-31 11:00 to 2026-01-31 12:00 UTC")
    assert second == f"{where / 'truth.jsonl'}: what really happened"
    assert main(["log", "check", str(where)]) == 0
    assert "all sound" in capsys.readouterr().out
    assert main(["log", "sample", str(where)]) == 2
    assert capsys.readouterr().err == (
        f"muster log sample: {where} is not empty: give an empty directory, or a new one\n"
    )


@pytest.mark.parametrize(("text", "records"), [("1000", 1_000), ("0.1M", 100_000), ("10M", 10_000_000), ("5k", 5_000)])
def test_the_number_of_sample_records_is_parsed(text: str, records: int) -> None:
    assert wanted_of(1, 1, 1, text, None).records == records


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--groups", "0"], "--groups 0: a number from 1 to 100,000 was expected"),
        (["--hours", "0.5"], "--hours 0.5: a number from 1 to 744 was expected"),
        (["--hours", "nan"], "--hours nan: a number from 1 to 744 was expected"),
        (["--records", "many"], "--records many: a number of commits such as 100000, 0.1M or 10M was expected"),
        (["--records", "999"], "--records 999: a number"),
        (["--records", "inf"], "--records inf: a number"),
        (["--records", "M"], "--records M: a number"),
        (
            ["--end", "0001-01-01"],
            "--end 0001-01-01: a time such as 2026-01-31T12:00 (UTC) was expected, and no beginning",
        ),
        (["--end", "0001-01-01T00:00+12:00"], "--end 0001-01-01T00:00+12:00: a time such as 2026-01-31T12:00 (UTC)"),
        (["--end", "soon"], "--end soon: a time such as 2026-01-31T12:00 (UTC) was expected, or now"),
    ],
)
def test_wrong_options_of_log_sample_are_refused(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "sample", str(tmp_path / "sample"), *options]) == 2
    assert capsys.readouterr().err.startswith(f"muster log sample: {sentence}")
    assert not (tmp_path / "sample").exists()


def test_an_unwritable_sample_directory_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["log", "sample", str(tmp_path / "file" / "sample")]) == 1
    assert "cannot be written" in capsys.readouterr().err
