"""Benches of the verifier. The last line of stdout is one JSON object.

python -m bench.verifier --cases ../shared/data/verifier/open.jsonl --json    how often it is right
python -m bench.verifier --golds --json                                       golds against themselves and others
python -m bench.verifier --speed --json                                       against plain math-verify
python -m bench.verifier --soak --json                                        20,000 verifications with bait
"""

import argparse
import json
import logging
import random
import resource
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from adarl.types import Verdict, Verification
from adarl.verifier import Verifier, VerifierSettings, parse_error
from adarl.verifier.extraction import last_boxed
from bench._verifier_data import Case, baits, flat, golds, read_cases, realistic_pools, shuffled_pairs

HANG_SECONDS = 30.0  # of one answer; the time limit ends it long before
EVALUATION_SETS = ("math500", "olympiadbench_674", "minerva_math", "aime24", "aime25", "hmmt24", "hmmt25", "brumo25",
                   "amc23", "cmimc25")  # fmt: skip


def run_cases(cases: list[Case], workers: int) -> dict[str, Any]:
    """Accuracy on labelled cases; answers without a box count, as their labels say. Wrong cases are printed."""
    with Verifier(VerifierSettings(workers=workers, extraction="last_boxed_or_final_answer")) as verifier:
        start = time.perf_counter()
        found = verifier.verify([case.response for case in cases], [case.gold for case in cases])
        seconds = time.perf_counter() - start
    kinds: dict[str, Counter[str]] = {}
    for case, verification in zip(cases, found, strict=True):
        outcome = _outcome(case, verification)
        kinds.setdefault(case.kind, Counter())[outcome] += 1
        if outcome != "right":
            print(
                f"{outcome}: {case.id} [{case.kind}] gold {case.gold!r:.120} extracted {verification.answer!r:.200} "
                f"verdict {verification.verdict}"
            )
    total = sum(kinds.values(), Counter())
    # Under `last_boxed` the same answers are graded, but those without a box are none.
    strict = [
        v.verdict.is_correct and last_boxed(c.response) is not None for c, v in zip(cases, found, strict=True)
    ]
    strict_right = sum(correct == case.strict_label for case, correct in zip(cases, strict, strict=True))
    return {
        "accuracy": round(total["right"] / len(cases), 4),
        "false_positives": total["false_positive"],
        "false_negatives": total["false_negative"],
        "hangs": sum(verification.seconds > HANG_SECONDS for verification in found),
        "errors": sum(verification.verdict is Verdict.ERROR for verification in found),
        "by_kind": {
            kind: {"cases": sum(counts.values()), **{name: counts[name] for name in sorted(counts)}}
            for kind, counts in sorted(kinds.items())
        },
        "cases": len(cases),
        "false_cases": sum(not case.label for case in cases),
        "timeouts": sum(verification.verdict is Verdict.TIMEOUT for verification in found),
        "strict_accuracy": round(strict_right / len(cases), 4),
        "seconds": round(seconds, 2),
        "max_answer_seconds": round(max(verification.seconds for verification in found), 3),
    }


def _outcome(case: Case, verification: Verification) -> str:
    if verification.verdict.is_correct == case.label:
        return "right"
    return "false_positive" if verification.verdict.is_correct else "false_negative"


def run_golds(workers: int, seed: int) -> dict[str, Any]:
    """Each gold boxed as its own answer, and every pair of different golds within a set."""
    result: dict[str, Any] = {}
    with Verifier(VerifierSettings(workers=workers)) as verifier:
        for name in EVALUATION_SETS:
            answers = golds(name)
            own = verifier.verify([f"\\boxed{{{answer}}}" for answer in answers], answers)
            refused = [answer for answer, v in zip(answers, own, strict=True) if not v.verdict.is_correct]
            unread = [answer for answer in answers if parse_error(answer, verifier.settings)]
            pairs = _different_pairs(answers, seed)
            crossed = verifier.verify([f"\\boxed{{{a}}}" for a, _ in pairs], [gold for _, gold in pairs])
            accepted = [pair for pair, v in zip(pairs, crossed, strict=True) if v.verdict.is_correct]
            for answer in refused:
                print(f"{name}: not its own answer: {answer!r}")
            for answer in unread:
                print(f"{name}: matched by identical text only: {answer!r}")
            for answer, gold in accepted:
                print(f"{name}: gold {gold!r} accepts {answer!r}")
            result[name] = {"golds": len(answers), "own": len(answers) - len(refused), "text_only": len(unread),
                            "pairs": len(pairs), "accepted": len(accepted)}  # fmt: skip
        result["minerva_e_notation"] = _e_notation(verifier)
    return result


def _different_pairs(answers: list[str], seed: int, limit: int = 20_000) -> list[tuple[str, str]]:
    distinct = list(dict.fromkeys(answers))
    pairs = [(a, b) for a in distinct for b in distinct if a != b]
    return pairs if len(pairs) <= limit else random.Random(seed).sample(pairs, limit)


def _e_notation(verifier: Verifier) -> dict[str, int]:
    """4.5e33 as 4.5 \\times 10^{33}."""
    written = [
        gold
        for gold in golds("minerva_math")
        if "e" in gold and gold.replace("e", "", 1).strip("-.0123456789") == ""
    ]
    answers = ["\\boxed{{{} \\times 10^{{{}}}}}".format(*gold.split("e")) for gold in written]
    found = verifier.verify(answers, written)
    return {"golds": len(written), "accepted": sum(v.verdict.is_correct for v in found)}


def run_speed(workers: int, seed: int) -> dict[str, Any]:
    """Pairs a second of this verifier and of plain math-verify in one process, on the same pairs."""
    answers = golds("math500")
    shuffled = shuffled_pairs(answers, seed)
    pools = realistic_pools(answers, seed=seed)
    pooled = flat(pools)
    plain = {"shuffled": _plain_rate(shuffled), "pools": _plain_rate(random.Random(seed).sample(pooled, 600))}
    with Verifier(VerifierSettings(workers=workers)) as verifier:
        start = time.perf_counter()
        results = verifier.verify([response for response, _ in shuffled], [gold for _, gold in shuffled])
        ours = {"shuffled": len(shuffled) / (time.perf_counter() - start)}
    with Verifier(VerifierSettings(workers=workers)) as verifier:
        start = time.perf_counter()
        for index, (responses, gold) in enumerate(pools):
            verifier.submit(index, responses, gold)
        while verifier.pending:
            results += [one for _, group in verifier.poll(timeout=1.0) for one in group]
        ours["pools"] = len(pooled) / (time.perf_counter() - start)
    ratios = {name: ours[name] / plain[name] for name in ours}
    seconds = sorted(result.seconds for result in results)
    return {
        "ratio_to_plain": round(min(ratios.values()), 2),
        "pairs_per_second": round(min(ours.values()), 1),
        "p99_seconds": round(seconds[int(0.99 * len(seconds))], 4),
        "max_seconds": round(seconds[-1], 4),
        "workers": workers,
        "ratios": {name: round(ratio, 2) for name, ratio in ratios.items()},
        "ours": {name: round(rate, 1) for name, rate in ours.items()},
        "plain": {name: round(rate, 1) for name, rate in plain.items()},
    }


def _plain_rate(pairs: list[tuple[str, str]]) -> float:
    """math-verify as its README shows, gold in a box, after warming up."""
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    verify(parse(r"\boxed{\frac{1}{2}}"), parse(r"\boxed{0.5}"))
    start = time.perf_counter()
    for response, gold in pairs:
        verify(parse(f"\\boxed{{{gold}}}"), parse(response))
    return len(pairs) / (time.perf_counter() - start)


def run_soak(workers: int, total: int, seed: int) -> dict[str, Any]:
    """`total` verifications with 2 % bait from a thread that is not the main one, while the main thread computes."""
    outcome: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: outcome.update(_soak(workers, total, seed)))
    thread.start()
    spun = 0
    while thread.is_alive():
        spun += sum(number * number for number in range(20_000)) > 0  # the parent computes
        time.sleep(0.001)
    thread.join()
    if not outcome:
        raise SystemExit("the soak thread failed, see above")
    return outcome | {"parent_turns": spun}


def _soak(workers: int, total: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    answers = golds("math500")
    start = time.perf_counter()
    counts: Counter[str] = Counter()
    num_bait = sent = received = 0
    peaks: dict[int, int] = {}
    verifier = Verifier(VerifierSettings(workers=workers, timeout_seconds=2.0))
    while received < total:
        while sent < total and verifier.pending < 64:
            gold = chance.choice(answers)
            responses = []
            for _ in range(min(8, total - sent)):
                is_bait = chance.random() < 0.02
                num_bait += is_bait
                boxed = f"\\boxed{{{gold if chance.random() < 0.5 else chance.choice(answers)}}}"
                responses.append(baits(chance) if is_bait else boxed)
            verifier.submit(sent, responses, gold)
            sent += len(responses)
        for _, group in verifier.poll(timeout=1.0):
            received += len(group)
            counts.update(str(one.verdict) for one in group)
        for pid in verifier.worker_pids:
            peaks[pid] = max(peaks.get(pid, 0), _peak_mib(pid))
    pids = verifier.worker_pids
    verifier.close()
    return {
        "verifications": received,
        "bait": num_bait,
        "verdicts": dict(counts),
        "seconds": round(time.perf_counter() - start, 1),
        "parent_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "worker_peak_mib": max(peaks.values()),
        "workers_started": len(peaks),
        "left_over": sum(Path(f"/proc/{pid}").exists() for pid in {*pids, *peaks}),
    }


def _peak_mib(pid: int) -> int:
    """Largest resident size of a live process, MiB; 0 once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.verifier", description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--cases", type=Path, metavar="FILE", help="labelled cases (JSONL)")
    what.add_argument("--golds", action="store_true", help="golds against themselves and against each other")
    what.add_argument("--speed", action="store_true", help="pairs a second, against plain math-verify")
    what.add_argument("--soak", action="store_true", help="many verifications with bait")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--total", type=int, default=20_000, help="verifications of the soak")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--json", action="store_true", help="only the JSON object on the last line, unindented"
    )
    options = parser.parse_args()
    if options.cases is not None:
        result = run_cases(read_cases(options.cases), options.workers)
    elif options.golds:
        result = run_golds(options.workers, options.seed)
    elif options.speed:
        result = run_speed(options.workers, options.seed)
    else:
        result = run_soak(options.workers, options.total, options.seed)
    sys.stdout.flush()
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
