"""The TLS of a listener: keys, certificates and handshakes. It is imported when a listener has TLS."""
