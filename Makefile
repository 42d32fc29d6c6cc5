# `make demo` and `make test` set themselves up; the rest is for people who work on Hermes.
.PHONY: demo test test-all check bench soak lock docs clean

demo: # 141: whoever reads the output has enough (`make demo | head`)
	@{ scripts/setup demo && .venv/bin/python -m hermes_drills.demo $(if $(MODEL),--model "$(MODEL)"); } || [ $$? = 141 ]

test:
	@scripts/setup dev
	@scripts/test-needs
	@HERMES_TEST_SEED=$${HERMES_TEST_SEED:-$$(date +%s)} scripts/test -m "not slow"

test-all:
	@scripts/setup dev
	@scripts/test-needs
	@scripts/test-all-needs
	@scripts/test

check:
	@scripts/setup dev
	@scripts/check

bench:
	@scripts/setup dev
	@.venv/bin/python -m bench

soak:
	@scripts/setup dev
	@.venv/bin/python -m tests.faults.soak

lock:
	@scripts/setup dev
	@scripts/lock

docs:
	@scripts/setup dev
	@.venv/bin/python scripts/gen_docs.py

clean:
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build dist src/*.egg-info drift/src/*.egg-info drills/src/*.egg-info .demo
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
