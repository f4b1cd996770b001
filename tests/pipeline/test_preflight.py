from __future__ import annotations

import socket
from pathlib import Path

import pytest

from muster.pipeline.preflight import NotUsable, check_master, check_names, check_out


@pytest.mark.parametrize(
    "bootstrap", ["one:9092", "one", "one:9092,two:9093", "[::1]:9092", "SASL_SSL://one.example:9092", " one:1, two:2"]
)
@pytest.mark.parametrize(
    "master", [None, "local", "local[*]", "local[4]", "local[2,3]", "spark://one:7077,two:7077", "yarn", "k8s://x:1"]
)
def test_valid_names_pass_the_checks(bootstrap: str, master: str | None) -> None:
    check_names(bootstrap, master, "out")


@pytest.mark.parametrize(
    "bootstrap", ["", " ", "one:0", "one:65536", "one:x", "a b", "one:1,", ":9092", "http://one/x"]
)
def test_an_invalid_address_is_refused(bootstrap: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT was expected"):
        check_names(bootstrap, None, "out")


@pytest.mark.parametrize(
    "master", ["", "one", "local[x]", "local[0]", "spark://one", "spark://one:7077,two", "mesos://x"]
)
def test_an_invalid_master_is_refused(master: str) -> None:
    with pytest.raises(ValueError, match=r"local\[\*\], spark://HOST:PORT, yarn or k8s://URL was expected"):
        check_names(None, master, "out")


def test_an_invalid_folder_is_refused() -> None:
    for out in ("", " ", "a\0b"):
        with pytest.raises(ValueError, match="a folder was expected"):
            check_names(None, None, out)


def test_a_master_that_does_not_listen_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"127.0.0.1:{server.getsockname()[1]}"
        check_master(f"spark://127.0.0.1:1,{url}")
    for none in (None, "local[*]", "yarn"):
        check_master(none)
    with pytest.raises(
        NotUsable, match=r"cannot be reached \(127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection"
    ):
        check_master("spark://127.0.0.1:1,127.0.0.1:2")


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    for out in (str(file), f"{file}/below/it", f"file:{file}", f"file://{file}"):
        with pytest.raises(NotUsable, match=r"--out .*file.*: .*/file is a file, where a folder was expected"):
            check_out(out)
    for fine in (str(tmp_path), str(tmp_path / "new" / "one"), f"file:{tmp_path}/two", "s3://bucket/one"):
        check_out(fine)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    with pytest.raises(NotUsable, match=r"nothing can be written there \(File name too long\): give another folder"):
        check_out(f"{tmp_path}/{'x' * 300}")

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    with pytest.raises(NotUsable, match=r"nothing can be written there \(Read-only file system\)"):
        check_out(f"{tmp_path}/three/four")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
