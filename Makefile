# pauseframe: the same commands that CI runs. Needs Rust, Python 3.11+ and make; everything else comes with them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUST   := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
STAMP  := $(VENV)/.stamps

.PHONY: help build demo test check bench calibrate clean

help:
	@echo "make demo    the paper's fat tree under five transports: results/demo/report.html"
	@echo "make test    every test"
	@echo "make build   $(BIN)/pauseframe"
	@echo "make check   formatting, lints, types, stubs"
	@echo "make calibrate  beside the real Linux kernel: docs/validation/linux.md"
	@echo "make bench   speed and memory, instructions per packet hop"

build: $(STAMP)/core

demo: build
	$(BIN)/pauseframe demo --out results/demo --force

test: $(STAMP)/dev
	cargo test --workspace --exclude pauseframe-python
	$(BIN)/python -m pytest

check: $(STAMP)/dev
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check python tests benchmarks calibration
	$(BIN)/ruff check python tests benchmarks calibration
	$(BIN)/mypy
	cd python && ../$(BIN)/python -m mypy.stubtest pauseframe._core --ignore-disjoint-bases

bench: build
	$(BIN)/python benchmarks/bench.py

calibrate: $(STAMP)/dev
	$(BIN)/python calibration/calibrate.py

clean:
	rm -rf target $(VENV) results python/pauseframe/*.so

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
