# Everything needs only Python >= 3.11 and Java >= 17 on the machine; the rest is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
# Each process of tests has its own broker, browser and Spark.
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder
# Many tests wait for somebody: four processes more than there are cores keep these busy.
PROCESSES ?= 6

# What `make test-versions` runs on: other Pythons, the lower end of every range, what of pyspark, of which pyspark
# all ways from records to lag (python -m tools.ways_page then writes docs/frames.md), and earlier versions of Kafka.
VERSIONS ?= python3.12 python3.13 lowest 4.0 4.3 ways4.0 ways4.1 ways4.2 ways4.3 kafka4.3 kafka4.2 kafka4.1

.DEFAULT_GOAL := help
.PHONY: help env demo test test-parts test-exhaustive reliability test-versions check rows capture-data screenshots lab pages docs bench lock dist audit clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

env: $(READY) ## create .venv from the pinned versions

$(READY): requirements.lock pyproject.toml tools/make_env.py
	@$(PYTHON) tools/make_env.py $(VENV)
	@touch $@

demo: $(READY) ## the groups of a recorded cluster, by Spark: a table here, a daily report in out/demo/
	@$(BIN)/sharelag demo --engine spark --out out/demo

# What compiles takes a processor while the others wait for a network. Of apt one runs at a time.
test-parts: $(READY)
	@$(BIN)/python -m tests.support.compiled simulations & simulating=$$!; \
	$(BIN)/python -m tests.support.compiled & compiling=$$!; \
	$(BIN)/python -m tests.support.compiled tests & rewriting=$$!; \
	($(BIN)/python -m tests.support.kafka.prometheus && $(BIN)/python -m tests.support.browser.chromium) & installing=$$!; \
	$(BIN)/python -m tests.support.browser.desk & scripts=$$!; \
	$(BIN)/python -m tests.support.kafka.jars && $(BIN)/python -m tests.support.kafka.class_data && $(BIN)/python -m tests.support.kafka.helm \
	&& wait $$installing && wait $$scripts && wait $$rewriting && wait $$compiling && wait $$simulating

test: test-parts ## all tests, against a real Kafka, Spark and Chromium
	@$(PYTEST) -n $(PROCESSES) $(SIDE_BY_SIDE) --session-timeout 4500

test-exhaustive: test-parts ## what make test leaves out, and the full numbers of random cases
	@$(PYTEST) -n 2 $(SIDE_BY_SIDE) --exhaustive

# One test at a time: each measures how long answers take while it breaks something.
reliability: test-parts ## every fault in full numbers, half an hour of capture --follow among them, into docs/reliability.md: two hours
	@rm -f out/reliability.json
	@SHARELAG_ENDURANCE_MINUTES=30 $(PYTEST) --faults
	@$(BIN)/python -m tools.reliability_page --anew

test-versions: $(READY) ## fast tests on Python 3.12 and 3.13, and at the lower ends of all ranges; the pipeline's on pyspark 4.0 and 4.3, ways to lag on 4.0 to 4.3, classic and by Spark Connect; what Kafka judges on Kafka 4.1 to 4.3: an hour and a half
	@$(BIN)/python -m tools.versions $(VERSIONS)

# Types are checked while kernels are compiled and tests run: each takes a processor for a while.
check: $(READY) ## format, lint, types, import layers, fast tests
	@mkdir -p build
	@$(BIN)/python -m tests.support.compiled & compiling=$$!; \
	$(BIN)/mypy > build/mypy.txt 2>&1 & typing=$$!; \
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports && wait $$compiling \
	&& $(PYTEST) -q -n 2 $(SIDE_BY_SIDE) -m "not slow" tests/unit; tested=$$?; \
	wait $$typing; typed=$$?; cat build/mypy.txt; test $$tested = 0 -a $$typed = 0

rows: ## which requirement rows have passing tests, and which have none
	-@test -f out/rows.json || $(MAKE) test
	@$(BIN)/python -m tests.rows

capture-data: test-parts ## record data/captures again from real brokers: an hour
	@$(BIN)/python -m tools.record.chapters data/captures/chapters
	@$(BIN)/python -m tools.record.demo data/captures/demo
	@$(BIN)/python -m tools.record.scenarios data/captures/scenarios

screenshots: test-parts ## pictures of notebooks, dashboards, widgets and reports in docs/: five minutes
	@$(BIN)/python -m tools.record.screenshots

lab: $(READY) ## copies of the notebooks in JupyterLab, of which the first has been run; ARGS="--port 9000"
	@$(BIN)/python -m tools.lab out/lab $(ARGS)

pages: $(READY) ## the notebooks as pages without code, by Voila, on this machine alone
	@JUPYTER_PATH=widgets $(BIN)/voila notebooks --Voila.config_file_paths=widgets/voila

docs: $(READY) ## the documentation as a site, build/site/index.html: works offline, fails on broken links
	@$(BIN)/python -m tools.docs

bench: test-parts ## sharelag against its rivals and the machine, side by side; QUICK=1: in minutes
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

lock: $(READY) ## pin the versions again
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --all-extras --no-emit-index-url \
	  --no-emit-find-links --generate-hashes --custom-compile-command "make lock" --upgrade -o requirements.lock pyproject.toml

dist: $(READY) ## the wheel, the jar of assignors for brokers, and what the lock installs as a bill of materials (CycloneDX), in dist/
	@rm -rf dist && $(BIN)/python -m hatchling build -t wheel -d dist
	@$(BIN)/python -m tools.assignors dist
	@$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --validate \
	  -o dist/sharelag.cdx.json requirements.lock

# Without an answer about every package it fails. ADVISORIES: a server with the API of osv.dev, such as
# a copy of its advisories where the network is closed (tools/advisories.py).
audit: $(READY) ## known faults of the locked packages, by PyPI's advisories; ADVISORIES=URL: by a copy
	@$(BIN)/pip-audit --strict --progress-spinner off --disable-pip --require-hashes -r requirements.lock \
	  $(if $(ADVISORIES),--vulnerability-service osv --osv-url $(ADVISORIES))

clean: ## remove what this Makefile made, but for .venv
	rm -rf .venvs out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
