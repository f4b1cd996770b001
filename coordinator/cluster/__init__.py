"""Which brokers there are, which of them leads each partition, and how clients reach it. Data only."""
