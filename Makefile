# Every target sets itself up: a virtual environment in .venv with all extras.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(sort $(wildcard robot/*.py sim/*.py policies/*.py export/*.py))
# A strict editable install knows only the files it was made with: new ones ask for a new install.
INSTALLED := .venv/.installed-$(shell echo $(SOURCES) | cksum | cut -d' ' -f1)

.PHONY: demo test lint benchmark results clean

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

results: $(INSTALLED)  ## the README's table: 100 unseen courses for each row and difficulty
	mkdir -p runs/results
	for control in policy teacher blind freeze-image random; do \
	    for difficulty in 0.0 0.5 1.0; do \
	        flag=$$([ $$control = policy ] || echo --$$control); \
	        echo "--- $$control, difficulty $$difficulty"; \
	        $(BIN)/pixelgait-eval iap --episodes 100 --difficulty $$difficulty $$flag \
	            --json runs/results/$$control-$$difficulty.json || exit 1; \
	    done; \
	done

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,ros]'
	rm -f .venv/.installed-*
	touch $@

clean:
	rm -rf .venv build runs
