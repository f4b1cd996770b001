"""Real clients against a running server.

The server is Muster, unless the environment says otherwise: `MUSTER_TEST_SERVER=kafka` runs the same tests on a real
Apache Kafka 4.4 (Java and Maven needed), `MUSTER_TEST_BOOTSTRAP=HOST:PORT` on a server that runs already (tests that
restart the server, or need other settings, are skipped then).
"""
