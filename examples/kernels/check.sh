#!/bin/sh
# check.sh: builds the program, runs every kernel, compares each with the CPU, prints the table.
# Words are passed on: ./check.sh --small --repeat 1. CUDA=1 or HIP=1 in the environment chooses the compiler.
# Exit status: 0, 1 when a result is wrong, 2 when it could not be built or run.
set -u
cd "$(dirname "$0")" || exit 2
make --silent -j"$(getconf _NPROCESSORS_ONLN)" >&2 || exit 2
exec ./kernels all --check "$@"
