# Every target sets itself up: a virtual environment in .venv with all extras.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(sort $(shell find robot sim policies export -name '*.py'))
# A strict editable install knows only the files it was made with: new ones ask for a new install.
INSTALLED := .venv/.installed-$(shell echo $(SOURCES) | cksum | cut -d' ' -f1)

.PHONY: demo test lint benchmark results encoders gait-study contact-sheet clean

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

results: $(INSTALLED)  ## the README's results: 100 unseen courses for each row and difficulty
	$(BIN)/python -m pixelgait.export.reports.results

encoders: $(INSTALLED)  ## the README's latencies of all encoders, and docs/encoders.png: idle machine, 8 min
	$(BIN)/pixelgait-profile --encoders --readme README.md
	cp runs/encoders/encoders.png docs/encoders.png

gait-study: $(INSTALLED)  ## open-loop sweeps of the gait generator: docs/gait_study.png
	$(BIN)/python -m pixelgait.export.reports.gait_study

contact-sheet: $(INSTALLED)  ## every scene at three difficulties: docs/scenes.png
	$(BIN)/python -m pixelgait.export.reports.contact_sheet

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,ros]'
	rm -f .venv/.installed-*
	touch $@

clean:
	rm -rf .venv build runs
