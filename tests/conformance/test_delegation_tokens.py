"""The story of delegation tokens on a real Kafka and on Muster, also with Kafka's own tool and client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.coordinator.token_story import EXPECTED, PROPERTIES, Story
from tests.support.servers import KafkaServer, MusterServer, ServerProcess, free_port_pair


@pytest.fixture(params=["kafka", "muster"])
def ports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The ports of the PLAINTEXT listener and of the other listener."""
    folder = tmp_path_factory.mktemp(str(request.param))
    first, (sasl, _) = free_port_pair(), (free_port_pair(), 0)
    names = {"PLAINTEXT": first, "SASL_PLAINTEXT": sasl}
    reported = ",".join(f"{name}://127.0.0.1:{port}" for name, port in names.items())
    properties = {**PROPERTIES, "advertised.listeners": reported, "inter.broker.listener.name": "PLAINTEXT"}
    server: ServerProcess
    if request.param == "kafka":
        properties |= {
            "listeners": f"{reported},CONTROLLER://127.0.0.1:{first + 1}",
            "listener.security.protocol.map":
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        }  # fmt: skip
        server = KafkaServer(folder, properties)
        server.bootstrap = f"127.0.0.1:{first}"
    else:
        server = MusterServer(folder, {**properties, "listeners": reported})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEAP", "512M")
        server.start()
    yield first, sasl
    server.stop()


def test_the_story_of_delegation_tokens_is_as_recorded(ports: tuple[int, int]) -> None:
    async def settle() -> None:
        await asyncio.sleep(3)  # a broker of Kafka gets changes from its controller

    answers: dict[str, Any] = asyncio.run(Story(*ports, settle).play())
    assert answers == EXPECTED
