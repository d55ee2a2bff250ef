# Every target sets itself up: a virtual environment in .venv with all extras.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(sort $(shell find robot sim policies export -name '*.py'))
# A strict editable install knows only the files it was made with: new ones ask for a new install.
INSTALLED := .venv/.installed-$(shell echo $(SOURCES) | cksum | cut -d' ' -f1)

.PHONY: demo test lint faults benchmark results navigation encoders gait-study walk-card walk-gif contact-sheet clean

demo: $(INSTALLED)  ## train, export, walk under ROS 2, report: runs/demo
	$(BIN)/pixelgait-demo

test: lint  ## everything CI checks
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --ignore tests/ros
	$(BIN)/python -m pytest tests/ros

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

faults: $(INSTALLED)  ## docs/faults.md: every fault on the wire, between real processes: 15 min
	$(BIN)/python -m pixelgait.export.faults.table --page docs/faults.md

benchmark: $(INSTALLED)  ## rollout speed against bare physics
	$(BIN)/pixelgait-benchmark

results: $(INSTALLED)  ## docs/results.md and the README's table: 100 unseen courses for each row and column
	$(BIN)/python -m pixelgait.export.reports.results

navigation: $(INSTALLED)  ## docs/results.md: point goals in 100 unseen houses a row
	$(BIN)/python -m pixelgait.export.reports.navigation

encoders: $(INSTALLED)  ## latencies of all encoders: docs/encoders.md and .png: idle machine, 8 min
	$(BIN)/pixelgait-encoders --page docs/encoders.md
	cp runs/encoders/encoders.png docs/encoders.png

gait-study: $(INSTALLED)  ## open-loop sweeps of the gait generator: docs/gait_study.png
	$(BIN)/python -m pixelgait.export.reports.gait_study

walk-card: $(INSTALLED)  ## what the low level reaches and bears: tables in policies/pretrained/walk/README.md
	$(BIN)/python -m pixelgait.export.reports.walk_card

walk-gif: $(INSTALLED)  ## the README's film: docs/walk.gif
	$(BIN)/pixelgait-eval iap --episodes 1 --seconds 10 --video docs/walk.gif

contact-sheet: $(INSTALLED)  ## every scene at three difficulties: docs/scenes.png
	$(BIN)/python -m pixelgait.export.reports.contact_sheet

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,ros]'
	rm -f .venv/.installed-*
	touch $@

clean:
	rm -rf .venv build runs
