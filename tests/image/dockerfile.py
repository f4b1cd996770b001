"""What the last stage of the Dockerfile says of the image, read as an engine reads it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parents[2]
_CONTINUED = re.compile(r"\\\n")


@dataclass
class Image:
    """The last stage: the files of the image, and how a container is started."""

    steps: list[tuple[str, list[str]]] = field(default_factory=list)
    """RUN with one string for sh; COPY with options and paths: in their order."""
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    directory: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    exposed: list[int] = field(default_factory=list)


def read(
    path: Path = ROOT / "Dockerfile", base_path: str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin"
) -> Image:
    """The last stage of the Dockerfile; `base_path` is the PATH of the image below it."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    image = Image()
    for line in _CONTINUED.sub("", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            image = Image(environment={"PATH": base_path})
        elif word == "RUN":
            image.steps.append((word, [rest]))
        elif word == "COPY":
            image.steps.append((word, shlex.split(rest)))
        elif word == "ENV":
            for pair in shlex.split(rest):
                name, _, value = pair.partition("=")
                image.environment[name] = Template(value).substitute(image.environment)
        elif word == "USER":
            image.user = rest
        elif word == "WORKDIR":
            image.directory = rest
        elif word == "ENTRYPOINT":
            image.entrypoint = json.loads(rest)
        elif word == "CMD":
            image.command = json.loads(rest)
        elif word == "HEALTHCHECK":
            image.health = json.loads(rest.partition("CMD ")[2])
        elif word == "EXPOSE":
            image.exposed += map(int, rest.split())
        elif word not in ("", "ARG", "LABEL", "VOLUME", "STOPSIGNAL"):
            raise AssertionError(f"the test does not know what {word} means")
    return image
