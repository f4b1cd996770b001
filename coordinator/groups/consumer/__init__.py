"""Groups of the consumer protocol (KIP-848): who assigns is the server."""
