"""The TLS of a listener: keys, certificates and handshakes. This package is imported when a listener has TLS."""
