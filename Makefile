# `make train` and `make test` set everything up by themselves; only Python 3.11 or newer is needed.

PYTHON ?= python3
VENV ?= .venv
RUN ?= runs/demo
WORKERS ?= 2
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: train test check bench docs site site-links package browser-test grhino clean

train: $(VENV)/user
	$(BIN)/zerolab train connect_four:6x7 --preset mini --run $(RUN)

# A folder's tests stay in one process (tests/conftest.py) and share what is costly to set up. Every
# worker imports everything and compiles helpers itself, so more workers only help with more cores.
test: check
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

# Format, lint, types and layers.
check: $(VENV)/developer
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/user
	$(BIN)/zerolab bench

# Build the distributions, and use the wheel in an empty environment; nothing is uploaded.
package:
	$(PYTHON) tools/check_package.py --constraint constraints.txt

# The pages in a real browser; needs Debian and the rights of root where there is no Chromium.
browser-test: $(VENV)/developer
	command -v chromium-headless-shell > /dev/null || \
		apt-get install --yes --no-install-recommends chromium-headless-shell
	$(BIN)/pytest -n 2 --dist loadfile tests/web/browser

# What the documentation lists and draws.
docs: $(VENV)/user
	$(BIN)/zerolab findings --folder docs/results --output docs/findings.md
	$(BIN)/python tools/generate_tables.py
	$(BIN)/python tools/draw_architecture.py

# The documentation site: build/site/index.html.
site: $(VENV)/site
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html -c docs/site . build/site

# The same pages; every link to other sites is followed.
site-links: $(VENV)/site
	$(BIN)/sphinx-build --quiet -b linkcheck -c docs/site . build/links

# The Othello program that tests of GTP play against; needs Debian and the rights of root.
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
