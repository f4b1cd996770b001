"""Random X.509 names and random rules for them, as lines for Java's classes (tests/conformance/Principals.java)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

FROZEN = Path(__file__).with_name("java-principals.txt")
"""Lines with Java's answers: `MUSTER_FREEZE=1 make conformance-clients` writes the file again."""
OIDS = (
    "550403", "550406", "550407", "550408", "550409", "55040a", "55040b", "550405", "55040c", "550404", "55042a",
    "0992268993f22c640101", "0992268993f22c640119", "2a864886f70d010901", "883703", "2b0601040182373c0201",
)  # fmt: skip
"""CN, C, L, ST, STREET, O, OU; serial number, title, surname, given name; UID, DC; e-mail; two unassigned ones."""
STRINGS = (0x0C, 0x0C, 0x0C, 0x13, 0x13, 0x16, 0x14, 0x1B)
TEXTS = (
    "Duke", "duke", "kafka.example.org", "a b", " lead", "trail ", "  ", "", "a,b", "a+b=c", '"q"', "<x>;#y", "#hash",
    "back\\slash", "Müller", "東京", "tab\there", "\r", "nul\0x", "ServiceUsers", "O'Neil", "a/b", "$1", "user@host",
    "🙂", "x\ny", "İI", "straße",
)  # fmt: skip
RULES = (
    "DEFAULT", "", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
    "RULE:^CN=([^,]+).*$/$1/U", "RULE:CN=(.*)/$1@$2/,DEFAULT", "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:CN=(.*?),(.*)/$2-$1/", "RULE:.*/everyone/", "RULE:.*/$0!/", "RULE:.*/$1/", "RULE:(.*)/a$3b$4c$1/",
    "RULE:(.*)/$12$1/", "RULE:(.*)/$999999999999/", "RULE:(.*)/x\\$1/", "RULE:(.*)/x\\/", "RULE:(?<n>[^,]*).*/${n}/L",
    "RULE:(?<n>[^,]*).*/${m}/", "RULE:[^=]*=\\Qa,b\\E.*/quoted/,DEFAULT", "RULE:(\\w+)=(\\S*).*/$2:$1/",
    "RULE:\\p{Upper}+=(\\p{Alpha}*).*/$1/", "RULE:(.)(.)(.*)\\2.*/$3/", "RULE:(?i)cn=([a-z]+).*/$1/,DEFAULT",
    "RULE:(?=CN)(.*)/$1/", "RULE:C?N?=?([^,]*)/$1/,RULE:(.*)/rest/", "RULE:a/b/L/U", "default", "RULE:a/b", "RULE://",
    "RULE:/.*/", "RULE:(a/b/", "RULE:[a/b/", ",, ,RULE:.*/x/,", "RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT",
    "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/", "RULE:(.*?)/$1/", "RULE:(a|ab)(c|bcd)?(.*)/[$1]/", "RULE:(.*)/${1}/",
    "RULE:(.*)/$01/", "RULE:(.*)/$/", "RULE:([^,]*),?(.*)\\z/$1/", "RULE:(.*)(x)?/$1$2/", "RULE:\\/.*/a\\/b/,DEFAULT",
    "RULE:,RULE:,/,RULE:,\\//U,DEFAULT", " RULE:(.*)/ $1 / , DEFAULT", "RULE:(.*)\n/$1/", "RULE:((.)*),.*/$2/",
)  # fmt: skip
SUBJECTS = (
    "CN=Duke,OU=ServiceUsers,O=Org,C=US", "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "cn=duke,ou=sme,dc=mycp,dc=com",
    "OU=JavaSoft,O=Sun Microsystems,C=US", "CN=Tkac\\, Adam,OU=ITZ,DC=geodis,DC=cz", "", "CN=kafka", "x\ny", "CN=x\r",
    "CN=a\\,b", "CN=İstanbul", "CN=ß,O=x", "CN=Müller+UID=7", "2.5.4.5=#130161,CN=a", "CN=$1", "CN=a\u2028b",
    "abcd", "a",
)  # fmt: skip


def _element(tag: int, value: bytes) -> bytes:
    size = len(value)
    if size < 128:
        return bytes([tag, size]) + value
    width = (size.bit_length() + 7) // 8
    return bytes([tag, 0x80 | width]) + size.to_bytes(width, "big") + value


def _attribute(draw: random.Random) -> bytes:
    text = draw.choice(TEXTS) + (draw.choice(TEXTS) if draw.random() < 0.3 else "")
    text *= 30 if draw.random() < 0.05 else 1
    tag = draw.choice(STRINGS)
    if draw.random() < 0.05:
        tag, value = 0x1E, text.encode("utf-16-be")
    elif tag == 0x0C:
        value = text.encode()
    else:
        value = text.encode("ascii", "replace")
    return _element(0x30, _element(0x06, bytes.fromhex(draw.choice(OIDS))) + _element(tag, value))


def names(seed: int, count: int) -> Iterator[str]:
    """Lines with a Name in DER. The elements of a SET are sorted by their bytes, as DER demands."""
    draw = random.Random(seed)
    for _ in range(count):
        relative = []
        for _ in range(draw.choice((0, 1, 1, 2, 3, 5))):
            several = sorted(_attribute(draw) for _ in range(draw.choice((1, 1, 1, 1, 2, 3))))
            relative.append(_element(0x31, b"".join(several)))
        yield f"name {_element(0x30, b''.join(relative)).hex()}"


def mappings(seed: int, count: int) -> Iterator[str]:
    """Lines with rules and a subject: all names above, then random ones."""
    for rules in RULES:
        for subject in SUBJECTS:
            yield f"map {rules.encode().hex()} {subject.encode().hex()}"
    draw = random.Random(seed)
    pieces = (
        "(.*?)",
        "([^,]+)",
        "CN=",
        "OU=",
        ",",
        "[a-z]*",
        "(\\w+)",
        "a",
        "D?",
        ".*",
        "(x|Duke)",
        "\\\\",
        "\\,",
        "$",
    )
    into = ("$1", "$2", "x", "@", "\\$", "$10", " ", "\\\\", "$0", ",")
    for _ in range(count):
        rules = ",".join(
            f"RULE:{''.join(draw.choices(pieces, k=draw.randint(1, 6)))}/"
            f"{''.join(draw.choices(into, k=draw.randint(0, 4)))}/{draw.choice(('', '', 'L', 'U'))}"
            for _ in range(draw.randint(1, 3))
        )
        yield f"map {rules.encode().hex()} {draw.choice(SUBJECTS).encode().hex()}"
