# Files of docs/, included by the top Makefile.am.
EXTRA_DIST += docs/cost.md docs/coverage.md docs/driver-behaviour.md docs/escapes.md docs/field-cases.md docs/measurements.md docs/original-api.md
