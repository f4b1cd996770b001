"""The core of transactions: transactional ids, their producers and their transactions' partitions (KIP-98, KIP-890)."""
