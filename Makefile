# make sim    the dry run, from a bare clone: NAME=folder SEED=0 TASK=peg_insert ALGORITHM=rlpd QUICK=1; installs what it needs
# make check  the short tests of everything that decides, a minute or two, for every save
# make test   style, types, imports and pytest, each also a target of its own
# make thorough  what make test leaves out: more arms, kinds, seeds and trainings; half an hour
# make search   every property of the tests on new random examples, four times as many; half an hour
# make faults  42 injected faults, ten minutes; what was measured goes to build/faults.json
# make tutorials  the commands of docs/tutorials that take minutes, typed one after the other; a quarter of an hour
# make bench  the benchmarks; writes benchmarks/RESULTS.md and results.json
# make bench-algorithms  every algorithm at equal robot time, hours; writes benchmarks/ALGORITHMS.md
# make bench-shaping  every form of reward at equal robot time, hours; writes benchmarks/SHAPING.md
# make bench-evidence  what reward adds to corrections, with operators of other skill, days; OUT=benchmarks; writes EVIDENCE.md
# make bench-asking  an operator who looks only when asked, hours; writes benchmarks/ASKING.md
# make bench-tasks   each simulated task with BC and HG-DAgger beside, hours; OUT=benchmarks; writes TASKS.md
# make bench-suites  RLPD on outside suites beside published figures, hours; SMOKE=1 for one hour; writes benchmarks/SUITES.md
# make docs   the pages of docs/ as a site in build/docs; a broken link fails
# make clean  everything that can be made again; recorded runs stay
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# or each of the hundreds of processes of the tests compiles anew what it imports
unexport PYTHONDONTWRITEBYTECODE

PIP := $(BIN)/python -m pip
TORCH := $(VENV)/.torch
SIM_READY := $(VENV)/.sim
INSTALLED := $(VENV)/.installed
# an index that torch is taken from, whatever else is known
TORCH_INDEX ?=
SIM_OPTIONS := $(if $(NAME),--name $(NAME)) $(if $(SEED),--seed $(SEED)) $(if $(TASK),--task $(TASK)) $(if $(ALGORITHM),--algorithm $(ALGORITHM)) $(if $(filter-out 0,$(QUICK)),--quick)
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))

.DEFAULT_GOAL := help
.PHONY: help install gl sim check test style types imports pytest pytest-alone pytest-beside thorough search faults tutorials docs bench bench-algorithms bench-shaping bench-evidence bench-asking bench-tasks bench-suites clean

help:
	@sed -n '/^# make/s/^# //p' Makefile

install: $(INSTALLED)

$(VENV)/pyvenv.cfg:
	@set -e; found=; \
	for python in $(PYTHON) python3.11 python3.12 python3; do \
		if $$python -c '$(SUPPORTED)' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "python is missing, must be 3.11 or 3.12; install one, or say where it is: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi; \
	$$found -m venv $(VENV) || { \
		rm -rf $(VENV); \
		echo "$$found has no venv module, must have one; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; \
	}

# torch first and by itself, so that nothing else decides which build of it is taken. Without a GPU it is the build for
# the CPU, 200 MB instead of 2.7 GB: uv knows where that lies. Where pip has been told of a place of its own, that is asked.
$(TORCH): $(VENV)/pyvenv.cfg constraints.txt
	@set -e; torch=$$(sed -n '/^torch==/p' constraints.txt); \
	if [ -n "$(TORCH_INDEX)" ]; then \
		echo "1 of 3: $$torch, from $(TORCH_INDEX)"; \
		$(PIP) install --quiet --no-deps --index-url "$(TORCH_INDEX)" $$torch; \
	elif [ "$$(uname -s)" != Linux ] || nvidia-smi -L >/dev/null 2>&1; then \
		echo "1 of 3: $$torch, as pip finds it"; \
		$(PIP) install --quiet $$torch; \
	elif $(PIP) config list | grep -qE 'index-url|find-links|no-index'; then \
		echo "1 of 3: $$torch, as pip finds it where its settings say"; \
		echo "        (no NVIDIA GPU here: if that is the build for GPUs, 2.7 GB, break off and say"; \
		echo "        make TORCH_INDEX=ADDRESS, an index of builds for the CPU: 200 MB)"; \
		$(PIP) install --quiet $$torch; \
	else \
		echo "1 of 3: $$torch for the CPU, 200 MB: there is no NVIDIA GPU here"; \
		$(PIP) install --quiet -c constraints.txt uv; \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --torch-backend cpu $$torch || { \
			echo "        (the builds for the CPU cannot be reached; as pip finds it, which may be 2.7 GB)"; \
			$(PIP) install --quiet $$torch; \
		}; \
	fi
	@touch $@

# what the dry run needs and nothing else
$(SIM_READY): $(TORCH) pyproject.toml constraints.txt $(wildcard setup.py)
	@set -e; extras=dry-run; \
	echo "2 of 3: ROS 2 from wheels"; \
	if $(PIP) install --quiet --no-deps --only-binary :all: -c constraints.txt ros-rclpy 2>/dev/null; then \
		extras=ros,$$extras; \
	else \
		echo "ros extra is left out: no ros-rclpy wheel for this Python and machine. Learner, tests and tools work;"; \
		echo "the nodes (and make sim) need a ROS 2 Jazzy installation whose setup file has been sourced."; \
	fi; \
	echo "3 of 3: robot-stack[$$extras], a minute or two"; \
	$(PIP) install --quiet -e ".[$$extras]" -c constraints.txt
	@echo "installed: $$(du -sm $(VENV) | cut -f1) MB in $(VENV)"
	@touch $@

$(INSTALLED): $(SIM_READY)
	@echo "tools of development, some minutes"
	@$(PIP) install --quiet -e ".[dev]" -c constraints.txt
	@echo "installed: $$(du -sm $(VENV) | cut -f1) MB in $(VENV)"
	@touch $@

# exit code of robot-stack after Ctrl-C: a wish, no failure
INTERRUPTED := 130

# MuJoCo draws the cameras through EGL
gl:
	@if [ "$$(uname -s)" = Linux ] && [ "$${MUJOCO_GL:-egl}" = egl ]; then \
		for library in libEGL.so.1 libGLESv2.so.2; do \
			if ! PATH="$$PATH:/sbin:/usr/sbin" ldconfig -p | grep -q "$$library"; then \
				echo "$$library is missing, must be installed to draw the cameras;" \
					"apt-get install libegl1 libgl1-mesa-dri libgles2" >&2; \
				exit 1; \
			fi; \
		done; \
	fi

sim: gl $(SIM_READY)
	@trap : INT; $(BIN)/robot-stack sim $(SIM_OPTIONS) || [ $$? -eq $(INTERRUPTED) ]

ifeq ($(PYTEST_ARGS),)
# The checks of the source take one core for half a minute, beside the first of the tests.
test: gl $(INSTALLED)
	@nice -n 19 $(MAKE) --no-print-directory --jobs=3 style types imports pytest-beside; beside=$$?; \
	if [ $$beside -eq 0 ] || [ -n "$(findstring k,$(firstword -$(MAKEFLAGS)))" ]; then \
		$(MAKE) --no-print-directory pytest-alone || exit $$?; \
	fi; \
	exit $$beside
else
test: style types imports pytest
endif

style: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy robot_stack policies reward_models sim

imports: $(INSTALLED)
	$(BIN)/lint-imports

# These measure time beside a whole cell, or look at what every process of the machine has in shared memory; so they
# have the machine to themselves, one after the other.
ALONE := $(addprefix tests/faults/test_matrix_,control.py hostile.py robot.py wired.py) \
	$(addprefix tests/nodes/test_,child_process.py cell_flow.py two_arm_cell_flow.py fed_device.py console_node.py \
	managed_cell.py reset_over_dds.py help_over_dds.py shared_memory.py public_wire.py bag_replay.py) \
	$(addprefix tests/conformance/test_,stack_on_servo.py driver_ways.py driver_first_motion.py) \
	$(addprefix tests/cli/test_,journey.py doctor.py doctor_on_drivers.py doctor_moves.py bag.py) tests/launch/test_wheel.py
# All others share it among its cores. First those that take longest, so that no core waits for another in the end.
LONGEST := $(addprefix tests/,flow learner rollout policies conformance cli launch nodes transport)
BESIDE := $(LONGEST) $(filter-out $(LONGEST),$(filter-out %__pycache__,$(patsubst %/,%,$(wildcard tests/*/))))
CORES := $(shell env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 2)
# Many wait for another process, a timeout or a port rather than for a core.
WORKERS := $(shell echo $$(($(CORES) + 1)))

check: gl $(INSTALLED)
	EXAMPLES_SHARE=0.2 $(BIN)/pytest -n $(CORES) --dist worksteal -m "not slow and not long" $(addprefix tests/,config control policies replay runs rollout learner workcell sensing teleop)

ifeq ($(PYTEST_ARGS),)
pytest: pytest-beside pytest-alone
else
pytest: gl $(INSTALLED)
	$(BIN)/pytest $(PYTEST_ARGS)
endif

# A learner and a fit yield to the robot's processes, and would starve among tests that take both cores; so all that runs
# beside each other is as patient.
pytest-beside: gl $(INSTALLED)
	nice -n 19 $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(addprefix --ignore=,$(ALONE)) $(BESIDE)

pytest-alone: gl $(INSTALLED)
	$(BIN)/pytest $(ALONE)

# What `make test` leaves out: more arms, seeds and repetitions of what it shows once, and minutes of training. Half an
# hour, one after the other.
thorough: gl $(INSTALLED)
	$(BIN)/pytest -m slow $(PYTEST_ARGS)

search: gl $(INSTALLED)
	EXAMPLES_SHARE=4 $(BIN)/pytest -n $(CORES) --hypothesis-profile=search -m hypothesis $(PYTEST_ARGS)

faults: gl $(INSTALLED)
	@mkdir -p build
	FAULTS_JSON=$(CURDIR)/build/faults.json $(BIN)/pytest tests/faults/test_matrix_*.py -m row $(PYTEST_ARGS)

tutorials: gl $(INSTALLED)
	TUTORIALS=1 $(BIN)/pytest tests/cli/test_tutorials.py -k minutes $(PYTEST_ARGS)

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: gl $(INSTALLED)
	$(BIN)/python -m benchmarks.collect

bench-algorithms: gl $(INSTALLED)
	$(BIN)/python -m benchmarks.learning.algorithms

bench-shaping: gl $(INSTALLED)
	$(BIN)/python -m benchmarks.learning.shaping

bench-evidence: gl $(INSTALLED)
	$(BIN)/python -m benchmarks.evidence $(if $(OUT),--out $(OUT))

bench-asking: gl $(INSTALLED)
	$(BIN)/python -m benchmarks.learning.asking

bench-tasks: gl $(INSTALLED)
	$(BIN)/python -m benchmarks.learning.tasks $(if $(OUT),--out $(OUT))

SUITES_OPTIONS := $(if $(filter-out 0,$(SMOKE)),--only puzzle-3x3-4 --chunks 5 --seeds 0 --steps 100000)
bench-suites: gl $(INSTALLED)
	$(BIN)/python -m benchmarks.suites $(SUITES_OPTIONS)

clean:
	rm -rf $(VENV) build dist install log *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
