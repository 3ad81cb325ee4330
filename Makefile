# The two commands of the README are `make demo` and `make test`; each builds and fetches what it
# needs, on a machine with the tools that the README names.

SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## Lists the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "make %-14s %s\n", $$1, $$2}'

# One set of features for all that is built here: the log on Pravega is in it, which a plain `cargo build` leaves out.
FEATURES := --features weir/pravega

.PHONY: build
build: system ## Builds the program, as it is released, into target/release/weir.
	@cargo build --release --package weir $(FEATURES)

# What C sources among the dependencies need.
.PHONY: system
system:
	@dev/system.sh

.PHONY: demo
demo: system ## Shows Weir scaling a simulated word count, in about 20 seconds.
	@cargo run --quiet --package weir $(FEATURES) -- demo

.PHONY: demo-flink
demo-flink: system ## Shows Weir scaling a real job on a real Flink cluster.
	@dev/demo-flink.sh

.PHONY: test
test: system ## Runs everything: formatting, lints, tests, licences, and the tests on real servers.
	@dev/test.sh all

.PHONY: test-fast
test-fast: system ## The same without real servers.
	@dev/test.sh fast

.PHONY: test-versions
test-versions: system ## The contract tests on further releases of Flink (1.20 and 2.0).
	@dev/test.sh versions

.PHONY: bench
bench: system ## Criterion benchmarks.
	@cargo bench --quiet --package weir-bench

.PHONY: bench-flink
bench-flink: system ## Measures the scenario on a real Flink cluster and prints it as a table.
	@dev/bench-flink.sh

.PHONY: bench-logs
bench-logs: system ## Measures the logs beside the bare clients, on real servers, and prints it as a table.
	@dev/bench-logs.sh

.PHONY: audit
audit: ## Checks dependencies against the database of advisories, where it can be had.
	@dev/deny.sh advisories
