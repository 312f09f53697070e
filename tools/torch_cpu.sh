# Sourced by setup.sh and lock.sh: torch's CPU build is not on the public Python index but on PyTorch's own.
torch_cpu_index=https://download.pytorch.org/whl/cpu

# pip_torch_cpu PIP ARGUMENT...: runs pip as the machine has it configured (it may have the build at hand), and
# where that fails once more with PyTorch's index.
pip_torch_cpu() {
    "$@" 2>/dev/null && return
    echo "pip as configured here did not get torch's CPU build; trying $torch_cpu_index"
    "$@" --index-url "$torch_cpu_index"
}
