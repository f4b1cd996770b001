"""The core of transactions: transactional ids, their producers and what their transactions hold (KIP-98, KIP-890)."""
