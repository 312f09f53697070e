"""A training run whose engine invents its samples: everything but vLLM is real, and it starts in a third of the time.

`python -m tests.e2e.scripted RECIPE ...`, or under the launcher. The environment can make a rank misbehave:

    SCRIPTED_SLEEP=S         every step takes S seconds longer
    SCRIPTED_KILL=STEP       SIGKILL in the middle of this step
    SCRIPTED_KILL_SAVE=STEP  SIGKILL when the files of this step's checkpoint are written and the manifest is not
    SCRIPTED_BAD=STEP        from this step on no update has a finite gradient
"""

import os
import signal
import sys
import time
from pathlib import Path
from random import Random

from adarl.launch import prepare_environment


class ScriptedEngine:
    """Answers right two times in five; the same request gets the same samples."""

    def __init__(self, model_path: str):
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(model_path)
        self._queue: list = []
        self._step = 0

    def submit(self, request):
        self._queue.append(request)

    @property
    def num_unfinished(self):
        return len(self._queue)

    def poll(self):
        requests, self._queue = self._queue, []
        return [(request, self._samples(request)) for request in requests]

    def _samples(self, request):
        from adarl.types import Sample

        samples = []
        for place, index in enumerate(request.indices):
            rng = Random(request.seed + place)
            answer = request.prompt.answer if rng.random() < 0.4 else str(rng.randrange(1000, 9999))
            text = f"\\boxed{{{answer}}}"
            ids = tuple(self._tokenizer(text + "<eos>", add_special_tokens=False)["input_ids"])
            samples.append(
                Sample(request.prompt.id, request.round, index, text, ids, (-0.5,) * len(ids), False)
            )
        return tuple(samples)

    def sleep(self):
        time.sleep(float(os.environ.get("SCRIPTED_SLEEP", 0)))

    def load_weights(self, weights):
        for _ in weights:
            pass

    def shutdown(self):
        import torch.distributed as dist

        dist.destroy_process_group()


def misbehave() -> None:
    """Put what the environment asks for in place."""
    import adarl.train as train
    from adarl import manifest

    train.build_engine = lambda recipe, model_path, distributed: ScriptedEngine(model_path)
    turn, entries = train.Trainer._turn, manifest.entries

    def our_turn(self, step):
        if os.environ.get("SCRIPTED_KILL") == str(step):
            self.engine.sleep = lambda: os.kill(os.getpid(), signal.SIGKILL)
        turn(self, step)
        self.learner.bad_updates_in_a_row = max(0, step + 1 - int(os.environ.get("SCRIPTED_BAD", 10**6)))

    def our_entries(folder: Path, names):
        if folder.name == f".step-{int(os.environ.get('SCRIPTED_KILL_SAVE', 0)):06d}.tmp":
            os.kill(os.getpid(), signal.SIGKILL)
        return entries(folder, names)

    train.Trainer._turn, manifest.entries = our_turn, our_entries


if __name__ == "__main__":
    prepare_environment()
    misbehave()
    import adarl.train

    code = adarl.train.main()
    sys.stdout.flush()
    os._exit(code)
