"""The options of `muster conform`."""

from __future__ import annotations

from typing import Any, Final

from muster.cli.parser import add_commands

_EXAMPLES: Final = """\
examples:
  muster conform localhost:9092                         all levels, compared with the release that is most similar
  muster conform localhost:9092 --level core,classic --as 4.2
  muster conform localhost:9092 --may-alter --html report.html --junit report.xml
  muster conform localhost:9092 --story join-is-a-barrier
  muster conform localhost:9092 --dry-run               what would be made and changed
  muster conform --listen 9092                          a server that checks its clients (docs/client-lint.md)
  muster conform --settings > conform.properties        properties with which nearly all stories are played
"""
_CONFORM: Final = """
conform  conform:conform  prove of any broker where it is not Kafka
    | Play stories that were recorded on Apache Kafka on any broker, and send it every request in every version
    | (docs/conform.md). Everything that is made has names that begin with conform-, and is deleted at the end. Exit
    | status 0: nothing differs; 1: something differs; 2: nothing could be compared.
    address? HOST:PORT  a broker, or one of a cluster
    --level+ LEVEL[,…]  core, classic, static, offsets, txn, consumer, share, streams, admin, data, wire (default: all)
    --story+ NAME[,…]  only these stories
    --as RELEASE  compare with this release: 3.9 to 4.4 (default: the one whose versions of APIs are most similar)
    --may-alter  give the groups of stories the configs that they need, and change settings of the brokers that can be
        changed at run time; they are put back at the end
    --dry-run  only list what would be made and changed
    --listen PORT  check clients instead: be a server for them, and report which rules they break, as muster lint does;
        its report is written into the file of --json, as JSON if the name ends with .json
    --settings NAME  only print properties for a broker: main (default), small, delayed, upgrade, downgrade or disabled;
        main lets nearly all stories run, all together let every story run
    --command-config FILE  a client.properties as Kafka's tools have it: TLS, SASL
    --json FILE  write the whole report as JSON
    --junit FILE  write it as JUnit's XML
    --html FILE  write it as a page
    --badge FILE  write a badge as SVG
"""
SETS: Final = ("main", "small", "delayed", "upgrade", "downgrade", "disabled")


def add_conform(commands: Any) -> None:
    """Add `conform` to the parser."""
    how: dict[str, Any] = {
        "as": {"dest": "release"},
        "settings": {"nargs": "?", "const": SETS[0], "choices": SETS},
    }
    add_commands(commands, _CONFORM, how, epilog=_EXAMPLES)
