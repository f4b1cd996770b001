"""The settings of the transaction core: Kafka's names and defaults. Reads nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Kafka's broker properties that the core follows; a field's name is the property's with "." as "_"."""

    transaction_max_timeout_ms: int = 900_000
    """The longest timeout that a producer may ask for its transactions."""
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    """How often the core searches for transactions that are open for longer than their timeout."""
    transactional_id_expiration_ms: int = 604_800_000
    """How long an id without an open transaction is kept after its last change."""
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    """How often the core searches for expired ids."""
