"""`muster backup` and `muster restore`: a copy of a data directory as it was at one moment, while the server serves."""
