"""`muster transactions` shows the transactions of a running server. Only `history` needs Muster."""
