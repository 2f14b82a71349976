# pauseframe: the same commands that CI runs. Needs Rust, Python 3.11+ and make; everything else comes with them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CHECKED := python tests benchmarks validation tools
RUST   := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
STAMP  := $(VENV)/.stamps
# A test that hangs fails with its name: after so many seconds here, by pytest's own limits (pyproject.toml) in Python.
LIMIT  := target.'cfg(all())'.runner = ['$(PYTHON)', '$(CURDIR)/tools/limit_test_time.py', '300']

MUTANTS ?= 100000

# Where it is set, each of the thousand processes of the tests compiles all modules that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help build demo test test-papers test-kernel night changed check docs gallery pictures dist platforms generate bench bench-growth calibrate pitfalls recount remembered switches clean

help:
	@echo "make demo    TCP-Bolt beside four transports on the paper's fat tree: results/demo/report.html"
	@echo "make test    every test but the papers' experiments"
	@echo "make changed  checks and tests of what differs from main, or of one crate: CRATE=rdma"
	@echo "make test-papers  the papers' experiments: a changed verdict fails"
	@echo "make test-kernel  hosts with a Linux kernel, which it builds first (minutes, once)"
	@echo "make night   what takes hours: 100,000 mutated inputs of all readers (MUTANTS=N), every failure of a write"
	@echo "make build   $(BIN)/pauseframe"
	@echo "make check   formatting, lints, English, types, stubs"
	@echo "make docs    the documentation site: site/index.html"
	@echo "make gallery  docs/gallery: runs its scenarios, draws the thumbnails and fills in the numbers"
	@echo "make pictures  docs/pictures/player.png, if the player has changed"
	@echo "make dist    wheel and source distribution in target/dist, installed and tried"
	@echo "make platforms  the core checked for macOS and Windows, wheels for Linux on x86-64 and aarch64"
	@echo "make generate  Python classes, reference of keys and columns, JSON Schema, after a change of a declaration"
	@echo "make calibrate  beside the real Linux kernel: docs/validation/linux.md"
	@echo "make pitfalls  docs/pitfalls.md and its figures, after a change of results"
	@echo "make recount  docs/validation/papers.md, after new verdicts"
	@echo "make remembered  the table of docs/models/memory-of-steps.md, after a change of training or of replays"
	@echo "make switches  what claims hang on: the runs of validation/papers/switches.toml that are not kept yet"
	@echo "make bench   speed and memory, instructions per packet hop"
	@echo "make bench-growth  cost against flows, hosts, links and simulated time: results/growth"

build: $(STAMP)/core

demo: build
	$(BIN)/pauseframe demo --out results/demo --force

test: $(STAMP)/dev
	cargo test --config "$(LIMIT)" --workspace --exclude pauseframe-python
	$(BIN)/python -m pytest -n auto --dist worksteal

test-papers: $(STAMP)/dev
	$(BIN)/python -m pytest -m papers

test-kernel: $(STAMP)/dev
	$(BIN)/pauseframe kernel build
	$(BIN)/python -m pytest tests/test_kernel.py

# Another seed each night, so that nights add up.
night: $(STAMP)/dev
	$(BIN)/python -m pytest -n auto -m night
	MUTANTS=$(MUTANTS) MUTANTS_SEED=$$(date +%Y%m%d) $(BIN)/python -m pytest tests/test_readers.py --timeout 0 -k mutant
	DRAWS=1000 $(BIN)/python -m pytest tests/test_reads_back.py --timeout 0
	FAULTS=500 FAULTS_SEED=$$(date +%Y%m%d) $(BIN)/python -m pytest tests/test_lint_faults.py -k single_faults
	$(BIN)/python tests/test_damaged_results.py 10000
	mkdir -p results && $(BIN)/python tests/faults.py --seed $$(date +%Y%m%d) --record results/faults.json
	$(BIN)/python tests/code_mutants.py 100 $$(date +%Y%m%d)
	$(BIN)/python tests/core_mutants.py 300 $$(date +%Y%m%d)
	$(BIN)/python tools/tested.py results/faults.json
	if command -v cargo-deny; then cargo deny check licenses sources; else echo "no cargo-deny here"; fi

changed:
	$(PYTHON) tools/changed.py $(CRATE)

check: $(STAMP)/dev
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/python tools/check_english.py
	$(BIN)/mypy
	cd python && ../$(BIN)/python -m mypy.stubtest pauseframe._core --ignore-disjoint-bases

docs: gallery pictures
	$(BIN)/python tools/tested.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The runs take seconds: the page and its thumbnails show what the simulator does now.
gallery: $(STAMP)/dev
	$(BIN)/python tools/gallery.py

# README's picture of the player, if the player has changed.
pictures: $(STAMP)/dev
	$(BIN)/python tools/pictures.py

dist: $(STAMP)/dev
	tools/dist

platforms: $(STAMP)/dev
	tools/platforms

# What follows from the declarations of keys and columns; a test compares.
generate: $(STAMP)/dev
	$(BIN)/python tools/generate.py

bench: build
	$(BIN)/python benchmarks/bench.py

bench-growth: $(STAMP)/dev
	$(BIN)/python benchmarks/growth.py

recount: $(STAMP)/dev
	$(BIN)/python validation/papers/recount.py

remembered: $(STAMP)/dev
	$(BIN)/python tools/remembered.py

switches: $(STAMP)/dev
	$(BIN)/python validation/papers/switches.py

pitfalls: $(STAMP)/dev
	$(BIN)/python validation/pitfalls.py

calibrate: $(STAMP)/dev
	$(BIN)/python validation/linux/calibrate.py

clean:
	rm -rf target $(VENV) results site python/pauseframe/*.so

$(STAMP)/venv: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip "maturin>=1.8,<2"
	mkdir -p $(STAMP) && touch $@

# maturin develop builds the extension in release mode and installs the package in place, with its dependencies.
$(STAMP)/core: $(STAMP)/venv $(RUST)
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet
	touch $@

$(STAMP)/dev: $(STAMP)/core
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet --extras dev
	touch $@
