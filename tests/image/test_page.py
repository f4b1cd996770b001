"""The commands and the Compose file of docs/docker.md work, with the image's file tree where no engine exists."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest

from muster.cli import build_parser
from muster.coordinator.config import load
from tests.image.container import Container, missing
from tests.image.dockerfile import ROOT
from tests.support.pasted_docs import blocks

PAGE = "docs/docker.md"
pytestmark = pytest.mark.timeout(120)
runs = pytest.mark.skipif(bool(missing()), reason=missing())


def docker_run(command: str) -> tuple[dict[str, str], list[str]]:
    """The environment and the command of the container that this command runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rm", action="store_true")
    parser.add_argument("-p")
    parser.add_argument("-e", action="append", default=[])
    options, rest = parser.parse_known_args(shlex.split(command)[2:])
    image = rest.index("muster")
    return dict(pair.split("=", 1) for pair in options.e), rest[image + 1 :]


def run_commands() -> list[str]:
    """The commands of the page, in its blocks and in its text."""
    found = [line for block in blocks(PAGE, name="run") for line in block.commands]
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    return [line for line in found if line.startswith("docker run")] + re.findall(r"`(docker run [^`]+)`", text)


def compose_environment() -> dict[str, str]:
    """The environment of the service `kafka` of the Compose file."""
    (block,) = blocks(PAGE, name="compose")
    return dict(re.findall(r"(?m)^ +(KAFKA_\w+): (.*)$", block.text))


def test_each_shell_block_of_the_docker_page_is_tested() -> None:
    assert {block.name for block in blocks(PAGE, "sh")} == {"run", "build"}
    assert len(run_commands()) == 3


def test_the_build_block_names_the_arguments_of_the_dockerfile() -> None:
    (block,) = blocks(PAGE, name="build")
    arguments = set(re.findall(r"--build-arg (\w+)=", block.text))
    assert arguments == set(re.findall(r"(?m)^ARG (\w+)=", (ROOT / "Dockerfile").read_text(encoding="utf-8")))
    assert blocks(PAGE, name="run")[0].commands[0] == "docker build -t muster ."


def test_the_docker_commands_use_options_of_the_server() -> None:
    for command in run_commands():
        environment, words = docker_run(command)
        if not words or words[0].startswith("-"):
            options = build_parser("serve").parse_args(["serve", *words])
            load(environment=environment, topics=options.topic)
        else:
            assert build_parser().parse_args(words[1:]).command == words[1]


def test_the_compose_file_has_a_host_and_an_inside_listener() -> None:
    config = load(environment=compose_environment())
    assert [(one.name, one.port, one.advertised_host, one.advertised_port) for one in config.listeners] == [
        ("HOST", 9092, "localhost", 9092), ("INSIDE", 19092, "kafka", 19092)
    ]  # fmt: skip


@runs
@pytest.mark.parametrize("number", range(len(run_commands())))
def test_each_docker_run_command_of_the_page_works(number: int) -> None:
    environment, words = docker_run(run_commands()[number])
    with Container(port=9092, environment=environment, command=words) as container:
        if words and not words[0].startswith("-"):
            container.wait_for_log(r"^muster \d")
        else:
            container.wait_for_log(r"^muster ready ")
            assert container.run(*container.health)[0] == 0


@runs
def test_the_compose_file_starts_a_healthy_server() -> None:
    with Container(port=9092, environment=compose_environment(), aliases="kafka") as container:
        container.wait_for_log(r"^muster ready localhost:9092$")
        assert container.run("muster", "health", "127.0.0.1:19092")[0] == 0
