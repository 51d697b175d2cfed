# `make demo` shows a call, `make test` runs the tests; both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint clean

demo: $(VENV)/.ready
	$(BIN)/python -m examples.first_call

test: $(VENV)/.ready lint
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

$(VENV)/.ready: pyproject.toml
	@command -v cmake >/dev/null || command -v ninja >/dev/null || echo "note: cmake will be installed for the build"
	@echo "Setting up $(VENV). If pip has no wheel of llama-cpp-python yet, it compiles llama.cpp"
	@echo "now: about 9 minutes on 2 cores, once; pip keeps the wheel in its cache."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@( while sleep 60; do echo "still installing (llama.cpp may be compiling) ..."; done ) & ticker=$$!; \
	  trap 'kill $$ticker 2>/dev/null' EXIT; \
	  $(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
