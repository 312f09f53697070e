"""How a command becomes one process a device: environment, preloaded libraries, the deepspeed launcher.

Imports nothing heavy: what it sets has to be there before torch is loaded.
"""

import ctypes.util
import logging
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from adarl.build_cache import use_own_folder


def num_local_devices() -> int:
    """CUDA devices of this machine, 1 where there is none: without an accelerator one process runs.

    Asks the driver, not torch, because a launcher has no business initialising CUDA.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not shutil.which("nvidia-smi"):
        return 1
    if visible is not None:
        return max(1, len([d for d in visible.split(",") if d.strip()]))
    return max(1, len(list(Path("/proc/driver/nvidia/gpus").glob("*"))))


def deepspeed_command(arguments: Sequence[str], num_devices: int, hostfile: str | None) -> list[str]:
    """The launcher's command line for `adarl.train` with the given arguments."""
    launcher = [str(Path(sys.executable).parent / "deepspeed")]
    nodes = ["--hostfile", hostfile] if hostfile else ["--num_accelerators", str(num_devices)]
    quiet = ["--log_level", "critical"]  # the ranks speak for themselves
    return [*launcher, *quiet, *nodes, "--module", "adarl.train", *arguments]


def run_launcher(command: Sequence[str]) -> int:
    """Run the deepspeed launcher to its end and hand the signals of this process to its ranks; returns its exit code.

    Left to itself the launcher answers SIGTERM by giving its ranks 30 s, and Ctrl-C by a traceback. So it runs in
    a process group of its own, ignores SIGUSR1, and its ranks get SIGUSR1 for SIGTERM, SIGUSR1 and SIGHUP (finish the
    step, save, end) and SIGINT for Ctrl-C. With a hostfile only ranks on this machine are reached, which is enough:
    they tell the others.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # inherited by the launcher; a rank sets its own handler
    launcher = subprocess.Popen(command, process_group=0)

    def forward(number: int, frame: object) -> None:
        ranks = _ranks_below(launcher.pid)
        for pid in ranks:
            os.kill(pid, signal.SIGINT if number == signal.SIGINT else signal.SIGUSR1)
        if not ranks:  # none has been started yet
            os.killpg(launcher.pid, signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, forward)
    return launcher.wait()


def _ranks_below(pid: int) -> list[int]:
    """The processes below another that run `-m adarl.train`."""
    import psutil

    below = psutil.Process(pid).children(recursive=True)
    return [p.pid for p in below if ["-m", "adarl.train"] in map(list, pairwise(p.cmdline()))]


def resume_command(arguments: Sequence[str], folder: str) -> str:
    """The command that takes a run in a folder up again, for this process's number of ranks.

    Args:
        arguments: the recipe and the overrides that the run was started with.
    """
    kept = [a for a in arguments if not a.startswith(("run.dir=", "run.resume="))]
    ranks, nodes = os.environ.get("WORLD_SIZE", "1"), os.environ.get("CROSS_SIZE", "1")
    if nodes != "1":
        return shlex.join(["deepspeed", "...", "--module", "adarl.train", *kept, f"run.dir={folder}"])
    devices = [] if ranks == "1" else ["--num-devices", ranks]
    return shlex.join(["adarl", "train", *kept, f"run.dir={folder}", *devices])


def has_cuda() -> bool:
    return shutil.which("nvidia-smi") is not None


def preload_libraries() -> None:
    """Start this process again with Intel's OpenMP and tcmalloc preloaded, where they are and no GPU is.

    They raised vLLM's decoding of a 135 M parameter model on CPU by 44 % (DESIGN.md); LD_PRELOAD only
    counts when a process starts. Does nothing in a process that was started with LD_PRELOAD, whoever set
    it. ADARL_PRELOAD=0 turns it off.
    """
    if os.environ.get("ADARL_PRELOAD", "1") == "0" or os.environ.get("LD_PRELOAD") or has_cuda():
        return
    libraries = [str(path) for path in (_intel_openmp(), _tcmalloc()) if path]
    if not libraries:
        return
    if int(os.environ.get("RANK", "0")) == 0:
        names = ", ".join(Path(library).name for library in libraries)
        print(
            f"adarl: starting again with {names} preloaded (faster on CPU; ADARL_PRELOAD=0 to leave it)",
            flush=True,
        )
    os.environ["LD_PRELOAD"] = ":".join(libraries)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _intel_openmp() -> Path | None:
    library = Path(sys.prefix) / "lib" / "libiomp5.so"  # where the intel-openmp wheel puts it
    return library if library.exists() else None


def _tcmalloc() -> Path | None:
    name = ctypes.util.find_library("tcmalloc_minimal")
    if not name:
        return None
    folders = (Path("/usr/lib") / f"{os.uname().machine}-linux-gnu", Path("/usr/lib"), Path("/usr/local/lib"))
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def prepare_environment() -> None:
    """Set what torch, DeepSpeed and vLLM read when they are loaded; a process without a launcher is a world of one."""
    if "RANK" not in os.environ:
        os.environ.update(
            RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1"
        )
        os.environ["MASTER_PORT"] = str(_free_port())
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("LOCAL_SIZE") or 1)
    cores = len(os.sched_getaffinity(0))
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // local_ranks)))
    if not has_cuda():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    use_own_folder()
    quiet_libraries()
    for key, value in {
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
    }.items():
        os.environ.setdefault(key, value)


def quiet_libraries() -> None:
    """Keep off the screen what a user can do nothing about: progress bars, advice, warnings; errors still show."""
    for key, value in {
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "DATASETS_VERBOSITY": "error",
    }.items():
        os.environ.setdefault(key, value)
    for name in ("DeepSpeed", "vllm", "torch.distributed", "datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module="torch|accelerate|deepspeed")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
