from __future__ import annotations

from muster.protocol.printable import shown

NASTY = "a\x1b[2J\r\nb\u202ec\x9bd\u2028e\x00\x7f\ud800"
HARMLESS = "a\\x1b[2J\\r\\nb\\u202ec\\x9bd\\u2028e\\x00\\x7f\\ud800"


def test_unprintable_characters_are_escaped_and_letters_kept() -> None:
    assert shown(NASTY) == HARMLESS
    assert shown("Gruppe für Zahlungen → 支払い") == "Gruppe für Zahlungen → 支払い"
