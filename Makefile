# `make train` and `make test` set everything up; they need only Python 3.11 or newer.

PYTHON ?= python3
VENV ?= .venv
RUN ?= runs/demo
WORKERS ?= 2
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: train test check bench docs site site-links package browser-test grhino clean

train: $(VENV)/user
	$(BIN)/zerolab train connect_four:6x7 --preset mini --run $(RUN)

# A folder's tests run in one process (tests/conftest.py) and share costly set-up. Each worker
# imports everything and compiles its own helpers, so more workers help only with more cores.
test: check
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --max-worker-restart=0

# Format, lint, types and layers.
check: $(VENV)/developer
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/user
	$(BIN)/zerolab bench

# Build the distributions, and test the wheel in an empty environment; nothing is uploaded.
package:
	$(PYTHON) tools/check_package.py --constraint constraints.txt

# Test the pages in a real browser. Without Chromium, this needs Debian and root.
browser-test: $(VENV)/developer
	command -v chromium-headless-shell > /dev/null || \
		apt-get install --yes --no-install-recommends chromium-headless-shell
	$(BIN)/pytest -n 2 --dist loadfile tests/web/browser

# Generated tables and figures.
docs: $(VENV)/user
	$(BIN)/zerolab findings --folder docs/results --output docs/findings.md
	$(BIN)/python tools/generate_tables.py
	$(BIN)/python tools/draw_architecture.py

# The documentation site: build/site/index.html.
site: $(VENV)/site
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html -c docs/site . build/site

# The same pages, checking all links to other sites.
site-links: $(VENV)/site
	$(BIN)/sphinx-build --quiet -b linkcheck -c docs/site . build/links

# Install the Othello program that GTP tests play against; needs Debian and root.
grhino:
	apt-get install --yes --no-install-recommends grhino

clean:
	rm -rf $(VENV)

$(VENV)/user: pyproject.toml constraints.txt examples/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable . --editable examples
	$(INSTALL) --editable '.[web]' || \
		echo "FastAPI cannot be installed here: zerolab serve will not work"
	touch $@

$(VENV)/site: $(VENV)/user
	$(INSTALL) --editable '.[site]'
	touch $@

$(VENV)/developer: $(VENV)/user
	$(INSTALL) --editable '.[dev,tune,tensorboard]' --editable examples
	$(INSTALL) --editable '.[oracle]' || \
		echo "BitBully cannot be installed here: its tests will be skipped"
	$(INSTALL) --editable '.[cluster]' || \
		echo "Ray cannot be installed here: its tests will be skipped"
	$(INSTALL) --editable '.[onnx]' || \
		echo "ONNX cannot be installed here: its tests will be skipped"
	touch $@
