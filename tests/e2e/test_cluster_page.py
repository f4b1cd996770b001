"""The blocks and examples of docs/cluster.md are tried; tests/test_readme.py tries `muster cluster try` itself."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from muster.cli import build_parser
from muster.coordinator.config import load
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.support.cluster_nodes import ClusterNode
from tests.support.pasted_docs import ROOT, Block, blocks
from tests.support.postgres import own_database
from tests.support.servers import free_port_pair

pytestmark = [
    pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="nodes of Muster's own"),
    pytest.mark.timeout(300),
]
PAGE = "docs/cluster.md"
EXAMPLES = ROOT / "examples" / "cluster"
"""The files that the page names."""
MUSTER = Path(sys.executable).parent / "muster"
URL = "postgresql://muster@localhost/muster"


def block(name: str) -> Block:
    """The block of this name."""
    (found,) = blocks(PAGE, name=name)
    return found


def test_every_block_of_the_cluster_page_is_tested() -> None:
    assert [(one.language, one.name) for one in blocks(PAGE)] == [
        ("sh", "try"), ("text", ""), ("sh", "own-database")
    ]  # fmt: skip


def test_the_cluster_page_begins_with_the_blocks_of_the_readme() -> None:
    page, readme = blocks(PAGE), blocks("README.md")
    (there,) = blocks("README.md", name="cluster")
    assert [one.text for one in page[:2]] == [there.text, readme[readme.index(there) + 1].text]


def test_the_own_database_block_of_the_cluster_page_works(postgres: str, tmp_path: Path) -> None:
    init, *serving = block("own-database").commands
    with own_database(postgres) as url, ExitStack() as ends:
        done = subprocess.run([MUSTER, *shlex.split(init.replace(URL, url))[1:]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for number, line in enumerate(serving):
            words = shlex.split(line.replace(URL, url))
            assert words[:2] == ["muster", "serve"]
            port = str(free_port_pair())
            address = re.sub(r":90\d\d$", f":{port}", words[words.index("--listen") + 1])
            node = ClusterNode(tmp_path / str(number), arguments=[words[2], words[3]])
            node.bootstrap = address
            node.begin()
            ends.callback(node.stop)
            node.until_ready()
        status = subprocess.run(
            [MUSTER, "cluster", "status", url, "--json"], capture_output=True, text=True, check=True
        ).stdout
        (cluster,) = json.loads(status)["clusters"]
        assert [node["node_id"] for node in cluster["nodes"] if node["lease_ms"] > 0] == [1, 2, 3]


def test_the_compose_example_serves_two_nodes() -> None:
    text = (EXAMPLES / "compose.yaml").read_text(encoding="utf-8")
    (entry,) = re.findall(r"entrypoint: (\[.*\])", text)
    assert build_parser().parse_args(json.loads(entry)[1:]).action == "init"
    (words,) = re.findall(r"command: (\[.*\])", text)
    assert build_parser("serve").parse_args(["serve", *json.loads(words)]).cluster == "postgresql://muster@db/muster"
    environments = re.findall(r"environment: \{(PGPASSWORD[^}]+KAFKA[^}]+)\}", text)
    advertised = []
    for one in environments:
        config = load(environment=dict(re.findall(r'(KAFKA_\w+): "([^"]*)"', one)))
        (listener,) = config.listeners
        assert listener.port == 9092
        advertised.append(listener.advertised_host)
    assert advertised == ["one", "two"]


def test_the_kubernetes_example_serves_its_nodes() -> None:
    text = (EXAMPLES / "kubernetes.yaml").read_text(encoding="utf-8")
    (words,) = re.findall(r"args: (\[.*\])", text)
    assert build_parser("serve").parse_args(["serve", *json.loads(words)]).cluster == "postgresql://muster@db/muster"
    variables = dict(re.findall(r'name: (KAFKA_\w+), value: "([^"]*)"', text))
    config = load(environment={name: value.replace("$(POD_IP)", "10.0.0.7") for name, value in variables.items()})
    (listener,) = config.listeners
    assert (listener.port, listener.advertised_host, listener.advertised_port) == (9092, "10.0.0.7", 9092)
