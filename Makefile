# The commands people type. `make help` lists them; each can be repeated and redoes only what changed.
#
#   make serve ARGS="--port 9000 --model path/to/model.gguf"

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Compiled in pieces that are kept, vector kernels lose what is inlined between them: what runs with
# them takes four times as long, and building again saves less.
export CARGO_INCREMENTAL ?= 0

ARGS ?=
PEER_ARGS ?=
CLIENTS ?=
TARGET ?= gguf
SECONDS ?= 60
CARGO ?= cargo
PYTHON ?= python3

target := $(or $(CARGO_TARGET_DIR),target)
test_python := $(abspath $(target))/test-python

.PHONY: help serve rank test bench clients torture lint model ptx fuzz setup test-setup

serve: setup ## Build Terrace and serve the default model and a click-through model on http://127.0.0.1:8000
	$(CARGO) build --release --locked -p terrace
	exec $(target)/release/terrace serve $(or $(ARGS),--model smollm2 --model-repository examples/click_demo)

rank: setup ## Train a recommender on MovieLens-100K (minutes, once) and serve it
	$(CARGO) build --release --locked -p terrace
	exec $(PYTHON) -B tools/hstu/demo.py --terrace $(target)/release/terrace --dir $(abspath $(target))/rank $(ARGS)

test: test-setup $(test_python)/ready lint model ## Check format, lints and every test, as the CI does
	if $(CARGO) nextest --version >/dev/null 2>&1; then runner="nextest run"; else runner="test"; fi; \
	export TERRACE_TEST_PYTHON=$(test_python)/bin/python; \
	$(CARGO) $$runner --workspace --all-targets --locked

bench: setup ## Measure the default model on this machine, and llama.cpp beside it (builds it once)
	$(CARGO) build --release --locked -p terrace
	$(target)/release/terrace bench llm $(ARGS)
	$(PYTHON) tools/bench_peers.py --terrace $(target)/release/terrace --dir $(abspath $(target))/peers $(PEER_ARGS)

torture: test-setup $(test_python)/ready model ## Hours of hostile clients; of failing tiers with ARGS=soak-tiers, soak-users, kill-servers or parameter-servers
	$(CARGO) build --release --locked -p terrace
	$(test_python)/bin/python tools/torture.py --terrace $(target)/release/terrace $(ARGS)

clients: setup ## Run real clients of PyPI and npm against a scripted model: make clients CLIENTS="litellm ai"
	$(CARGO) build --locked -p terrace
	$(PYTHON) -B tools/clients/run.py --terrace $(target)/debug/terrace --dir $(abspath $(target))/clients $(CLIENTS)

lint: setup ## Check the format and run clippy; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

model: setup ## Get the default model (98 MB, once)
	$(CARGO) build --workspace --all-targets --locked
	$(target)/debug/terrace pull

ptx: $(test_python)/ready ## Compile the CUDA kernels to the PTX that is committed; needs no GPU
	$(test_python)/bin/python tools/ptx.py

fuzz: setup ## Look for inputs that break a reader: make fuzz TARGET=http SECONDS=600
	$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz
	mkdir -p $(target)/fuzz-corpus/$(TARGET)
	RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run --fuzz-dir fuzz $(TARGET) $(abspath $(target))/fuzz-corpus/$(TARGET) \
	  fuzz/corpus/$(TARGET) -- -max_total_time=$(SECONDS) -rss_limit_mb=2048 -timeout=10 -max_len=65536 \
	  -dict=fuzz/dictionaries/$(TARGET).dict

setup: ## Install what the build needs from the system; says what it cannot install
	@tools/setup.sh

test-setup:
	@tools/setup.sh tests

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The real OpenAI client that the server's tests talk through, and NVIDIA's compiler for kernels.
$(test_python)/ready: tools/test-requirements.txt | setup
	$(PYTHON) -m venv $(test_python)
	$(test_python)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@
