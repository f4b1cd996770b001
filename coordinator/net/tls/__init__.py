"""TLS of a listener: keys and certificates, and the beginning of its connections. Imported when a listener has it."""
