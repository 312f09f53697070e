#!/usr/bin/env bash
# Makes .venv and installs the locked dependencies and adarl itself (editable) into it.
#
#     PYTHON=python3.11 tools/setup.sh cpu|cuda
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/torch_cpu.sh
device=$1
lock=requirements/$device.txt

fail() {
    echo "setup: $*" >&2
    exit 1
}
[[ -f $lock ]] || fail "DEVICE=$device is unknown: use DEVICE=cpu or DEVICE=cuda."
[[ "$(uname -s) $(uname -m)" == "Linux x86_64" ]] ||
    fail "the locked packages are for Linux on x86_64, this is $(uname -s) on $(uname -m)."
[[ -n $PYTHON ]] ||
    fail "Python 3.11 is needed (the locks are made for it) and none was found: install it, or set PYTHON=/path/to/python3.11."
[[ $("$PYTHON" -c 'import sys; print(*sys.version_info[:2], sep=".")' 2>/dev/null) == 3.11 ]] ||
    fail "PYTHON=$PYTHON is not Python 3.11, for which the locks are made."
"$PYTHON" -c 'import ensurepip' 2>/dev/null ||
    fail "$PYTHON cannot make virtual environments: install its venv module (on Debian: apt-get install python3.11-venv)."
command -v g++ >/dev/null ||
    fail "g++ is needed, DeepSpeed compiles a small communication op with it: install it (on Debian: apt-get install g++)."

# Another device's packages are other builds of the same modules, so they cannot lie beside each other.
if [[ $(cat .venv/device 2>/dev/null) != "$device" ]]; then
    "$PYTHON" -m venv --clear .venv
    echo "$device" >.venv/device
fi

# The lock is whole, so nothing is resolved: --no-deps also keeps out what the CPU lock leaves out on purpose.
install=(.venv/bin/pip install -qq --no-deps --require-hashes)
echo "Installing $(grep -c == "$lock") locked packages into .venv (DEVICE=$device), a few minutes the first time"
if [[ $device == cpu ]]; then
    sed -n '/^torch==/,/[^\\]$/p' "$lock" >.venv/torch.txt
    pip_torch_cpu "${install[@]}" -r .venv/torch.txt
fi
"${install[@]}" -r "$lock"
.venv/bin/pip install -qq --no-deps --no-build-isolation --editable .
