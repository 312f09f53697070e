"""The stage of data_prep.collect that needs the verifier: can responses be graded against the gold, and is it right?"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from adarl.types import Verdict
from adarl.verifier import Verifier, VerifierSettings, parse_error
from data_prep.candidates import Candidate, Dropped, drop
from eval.files import digest_of
from eval.job import rank_and_world
from eval.progress import Progress
from eval.shards import Shard, finished_rows, wait_for_rows

IN_FLIGHT = 256  # problems at the verifier at a time


def check_golds(
    candidates: Sequence[Candidate],
    settings: VerifierSettings,
    solutions_must_verify: bool,
    folder: Path,
    say: Callable[[str], None],
) -> tuple[list[Candidate], list[Dropped]] | None:
    """Leave out candidates whose gold cannot be read, or that no reference shows to be gradable.

    A candidate passes where its gold in a box is graded correct, or one of its solutions is;
    `solutions_must_verify` asks for a solution. Each finding is on disk at once, in the folder's `shards/`,
    and made only once. Under a launcher every rank checks its share.

    Returns:
        Kept and left out; None on a rank other than 0.
    """
    rank, world_size = rank_and_world()
    shards = folder / "shards"
    keys = [_key(c) for c in candidates]
    done = finished_rows(shards)
    todo = [
        c
        for c, key in zip(candidates[rank::world_size], keys[rank::world_size], strict=True)
        if key not in done
    ]
    if todo:
        if len(todo) < len(candidates[rank::world_size]):
            say(f"verify: {len(done)} of {len(candidates)} problems are finished already")
        progress = Progress("problems verified", len(todo), say)
        with Shard(shards, rank) as shard, Verifier(settings) as verifier:
            for candidate, stage, reason in _findings(todo, verifier, settings, solutions_must_verify):
                shard.append({"key": _key(candidate), "stage": stage, "reason": reason})
                progress.add()
    if rank != 0:
        return None
    found = wait_for_rows(shards, keys)
    kept = [c for c, key in zip(candidates, keys, strict=True) if found[key]["stage"] is None]
    dropped = [
        drop(c, found[key]["stage"], found[key]["reason"])
        for c, key in zip(candidates, keys, strict=True)
        if found[key]["stage"] is not None
    ]
    return kept, dropped


def _key(candidate: Candidate) -> str:
    """Names a finding by all that it depends on, so that another text under the same id is checked anew."""
    return f"{candidate.id}#{digest_of([candidate.answer, candidate.solutions])}"


def _findings(
    candidates: Sequence[Candidate],
    verifier: Verifier,
    settings: VerifierSettings,
    solutions_must_verify: bool,
) -> Iterator[tuple[Candidate, str | None, str]]:
    """Each candidate with the stage that leaves it out, None where it passes, and why."""
    waiting: dict[str, Candidate] = {}
    rest = deque(candidates)
    while rest or waiting:
        while rest and len(waiting) < IN_FLIGHT:
            c = rest.popleft()
            if (error := parse_error(c.answer, settings)) is not None:
                yield c, "unreadable_gold", error
                continue
            waiting[c.id] = c
            verifier.submit(c.id, [f"\\boxed{{{c.answer}}}", *c.solutions], c.answer)
        for id, found in verifier.poll(timeout=1.0 if waiting else 0.0):
            c = waiting.pop(str(id))
            verdicts = [f.verdict for f in found]
            reason = unverified(verdicts[0], verdicts[1:], solutions_must_verify)
            yield c, None if reason is None else "unverified", reason or ""


def unverified(gold: Verdict, solutions: Sequence[Verdict], solutions_must_verify: bool) -> str | None:
    """Why a gold does not pass, given the verdicts on itself in a box and on the reference solutions."""
    if any(v.is_correct for v in solutions) or (gold.is_correct and not solutions_must_verify):
        return None
    kinds = ", ".join(dict.fromkeys(v.value for v in solutions)) or "there is none"
    own = "" if solutions_must_verify else f"the gold against itself: {gold.value}; "
    return f"{own}reference solutions: {kinds}"
