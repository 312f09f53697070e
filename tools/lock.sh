#!/usr/bin/env bash
# Resolves setup.cfg into requirements/cpu.txt and requirements/cuda.txt, with hashes, for Python 3.11 on Linux
# x86_64. Pins that still fit are kept; delete a lock first to take the newest version of everything in it.
#
#     PYTHON=python3.11 tools/lock.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/torch_cpu.sh
: "${PYTHON:?lock: Python 3.11 is needed: set PYTHON}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$PYTHON" -m venv "$work/venv"
"$work/venv/bin/pip" install -qq uv

# uv reads no pip configuration, so pip fetches the one wheel that the public index lacks into a folder for it.
torch=$(grep -o 'torch==.*+cpu' setup.cfg)
pip_torch_cpu "$work/venv/bin/pip" download -qq --no-deps --dest "$work/wheels" "$torch"

resolve() { # resolve DEVICE [further arguments for uv]
    local lock=requirements/$1.txt
    "$work/venv/bin/uv" pip compile setup.cfg --extra "$1" --extra dev "${@:2}" --output-file "$lock" \
        --python "$PYTHON" --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
        --generate-hashes --no-annotate --custom-compile-command "make lock" --quiet
    echo "$lock: $(grep -c == "$lock") packages"
}
resolve cpu --overrides requirements/overrides-cpu.txt --find-links "$work/wheels"
resolve cuda
