"""Testcontainers' Kafka modules start our image in place of their own images.

There is no container engine here. `modules` has what each module asks of an engine, and `container` does it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.image.clients import works
from tests.image.container import Container, missing
from tests.image.modules import KEY_STORE_PASSWORD, MODULES, SCRAM, Mapped, Module
from tests.support.certificates import Authority

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.timeout(120)]


@pytest.mark.parametrize("module", MODULES, ids=[one.name for one in MODULES])
def test_a_testcontainers_module_starts_the_image_and_serves_a_client(module: Module, tmp_path: Path) -> None:
    container = Container(
        port=module.port,
        environment=module.environment,
        entrypoint=module.entrypoint,
        command=module.command,
        aliases=module.aliases,
    )
    security: dict[str, str] = {}
    with container:
        if module.copied_when is not None:
            container.wait_for_log(module.copied_when)
        if module.secure:
            authority = Authority()
            pair = authority.signed("CN=broker", host="localhost")
            store = pair.pkcs12(tmp_path / "store.pfx", KEY_STORE_PASSWORD)
            container.copy("/etc/kafka/secrets/server.keystore.pfx", Path(store).read_bytes())
            security = {
                "security.protocol": "SASL_SSL",
                "ssl.ca.pem": authority.pem,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": SCRAM[0],
                "sasl.password": SCRAM[1],
            }
        mapped = Mapped(port=container.mapped_port, hostname=container.hostname)
        container.copy(module.script_path, module.script(mapped), module.script_mode)
        container.wait_for_log(module.waits_for or r"^muster ready")
        if module.waits_for is None:
            assert container.run(*container.health)[0] == 0
        bootstrap = f"localhost:{container.mapped_port}"
        cluster_id = works(bootstrap, security)
        assert container.run("muster", "health", module.inside) == (0, f"muster health: {module.inside} answers\n")
    wanted = module.environment.get("CLUSTER_ID")
    assert cluster_id == wanted if wanted else len(cluster_id) == 22
    assert [line for line in container.log if "not found" in line or "No such file" in line] == []
