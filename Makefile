# Every target sets itself up: a virtual environment in .venv with all extras.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(sort $(wildcard robot/*.py sim/*.py policies/*.py export/*.py))
# A strict editable install knows only the files it was made with: new ones ask for a new install.
INSTALLED := .venv/.installed-$(shell echo $(SOURCES) | cksum | cut -d' ' -f1)

.PHONY: demo test lint benchmark clean

demo: $(INSTALLED)  ## train, export, walk under ROS 2, report: runs/demo
	$(BIN)/pixelgait-demo

test: lint  ## everything CI checks
	$(BIN)/python -m pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

benchmark: $(INSTALLED)  ## rollout speed against bare physics
	$(BIN)/pixelgait-benchmark

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,ros]'
	rm -f .venv/.installed-*
	touch $@

clean:
	rm -rf .venv build runs
