# Two commands: `make run` and `make test`. Everything they need is set up in .venv and target.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip finds the build backend here.
export PATH := $(CURDIR)/$(BIN):$(PATH)
SOURCES := $(shell find crates src -name '*.rs' -o -name '*.py' -o -name '*.pyi' -o -name Cargo.toml) \
	Cargo.toml Cargo.lock pyproject.toml

.PHONY: docs wheel run test test-long lint rust-test python-test install benchmark benchmark-search benchmark-run benchmark-explore format clean

run: install
	@mkdir -p target/demo
	@echo '$$ isolde generate --level serializable --transactions 2000 --inject write-skew -o target/demo/history.jsonl'
	@$(BIN)/isolde generate --level serializable --transactions 2000 --inject write-skew --seed 7 -o target/demo/history.jsonl
	@echo '$$ isolde check --level si --level ser target/demo/history.jsonl'
	@$(BIN)/isolde check --level si --level ser target/demo/history.jsonl || test $$? -eq 1
	@rm -rf target/demo/run
	@echo '$$ isolde run duckdb: --deletes 0.3 --keys 10 --check si --until-violation -o target/demo/run --report target/demo/report.html'
	@$(BIN)/isolde run duckdb: --deletes 0.3 --keys 10 --check si --until-violation -o target/demo/run \
		--report target/demo/report.html || test $$? -eq 1
	@echo 'The same as a page: open $(CURDIR)/target/demo/report.html in a browser.'

test: lint rust-test python-test

lint: $(VENV)/.test-extras
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cargo fmt --check
	cargo clippy --release --locked --all-targets -- -D warnings

rust-test:
	cargo test --release --locked --workspace

python-test: $(VENV)/.test-extras $(VENV)/.servers
	$(BIN)/python -m pytest -m "not long and not server" --numprocesses auto --dist worksteal
	$(BIN)/python -m pytest -m "server and not long"

test-long: $(VENV)/.test-extras $(VENV)/.servers
	$(BIN)/python -m pytest -m long

benchmark: $(VENV)/.benchmark-extras
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/check.py
	$(BIN)/python benchmarks/linearizable.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/compiling.py
	$(BIN)/python benchmarks/certify.py --small

# Some minutes: where the order of writes is open.
benchmark-search: $(VENV)/.benchmark-extras
	$(BIN)/python benchmarks/ordering.py --limit 10
	$(BIN)/python benchmarks/search.py --growth
	$(BIN)/python benchmarks/deletes.py

# Some minutes: runs on a private PostgreSQL, against pgbench; steps of schedules; what asking for the order costs.
benchmark-run: $(VENV)/.test-extras
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/schedules.py postgresql
	$(BIN)/python benchmarks/recover.py

# Some minutes: exploring the clients of five applications; store models.
benchmark-explore: $(VENV)/.test-extras
	$(BIN)/python benchmarks/explore.py
	$(BIN)/python benchmarks/stores.py

# The documentation as pages, in target/site.
docs: $(VENV)/.test-extras
	$(BIN)/mkdocs build --quiet
	@echo 'Open target/site/index.html in a browser.'

# For any CPython from 3.11 on, on this kind of machine: who installs it needs no Rust.
wheel: install
	$(BIN)/maturin build --release --out dist

format: $(VENV)/.test-extras
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt

install: $(VENV)/.installed

# The package is installed in place; the stamp is renewed when a source of the extension changes.
$(VENV)/.installed: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile "maturin>=1.9,<2"
	$(BIN)/python -m pip install --quiet --no-compile --no-build-isolation --editable ".[duckdb]"
	touch $@

$(VENV)/.test-extras: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[test]"
	touch $@

# Servers that no wheel brings. Without them the tests say what they could not run.
$(VENV)/.servers: tools/servers.sh $(VENV)/.test-extras
	sh tools/servers.sh $(BIN)/python
	touch $@

$(VENV)/.benchmark-extras: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[benchmark]"
	touch $@

clean:
	rm -rf $(VENV) target src/isolde/_core/_native*.so
