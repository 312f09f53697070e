"""Memory of log-probabilities with and without whole logits: `python -m bench.memory [--json]`.

The head of a model with a vocabulary of 152k, the hidden states given: forward and backward through the
log-probabilities and entropies of T tokens. Ours is the policy module; the plain way takes the logits of all tokens at
once, as a bare transformers loop does. Extra peak: what the process's resident memory reaches above the weights, the
weight's gradient (once, whatever T) and the hidden states with their gradient. One process a measurement, because
a peak never falls. `growth` is the extra peak at 8k tokens over that at 1k.
"""

import json
import subprocess
import sys
from typing import Annotated, Any

import psutil
import typer

from bench._compare import finish

VOCABULARY, HIDDEN = 151_936, 256
TOKENS = (1024, 8192)
MIB = 1 << 20


def measure(way: str, tokens: int, dtype: str) -> float:
    """Extra peak in MiB, in this process."""
    import resource

    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from adarl.policy import Policy

    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    model = Qwen2ForCausalLM(config).to(getattr(torch, dtype))
    head = model.get_output_embeddings()
    head.weight.grad = torch.zeros_like(head.weight)
    hidden = torch.randn(tokens, HIDDEN, dtype=head.weight.dtype, requires_grad=True)
    hidden.grad = torch.zeros_like(hidden)
    targets = torch.randint(VOCABULARY, (tokens,))
    policy = Policy(model)
    if way == "ours":
        policy.head(hidden[:8], targets[:8])[0].sum().backward()  # what the libraries load on first use
    else:
        _plain(head, hidden[:8], targets[:8])[0].sum().backward()
    before = psutil.Process().memory_info().rss / MIB
    logprobs, entropies = (policy.head if way == "ours" else lambda *x: _plain(head, *x))(hidden, targets)
    (logprobs.sum() + 0.1 * entropies.sum()).backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before


def _plain(head: Any, hidden: Any, targets: Any) -> Any:
    """The textbook: whole logits, log-softmax, gather."""
    logp = head(hidden).float().log_softmax(-1)
    return logp.gather(-1, targets[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def in_a_process(way: str, tokens: int, dtype: str) -> float | None:
    """Extra peak in MiB; None where the machine has too little memory for it."""
    command = [sys.executable, "-m", "bench.memory", "--measure", f"{way},{tokens}", "--dtype", dtype]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode == -9:
        return None
    if found.returncode:
        raise SystemExit(f"bench.memory: {found.stderr.strip().splitlines()[-1]}")
    return float(json.loads(found.stdout.splitlines()[-1]))


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    dtype: Annotated[str, typer.Option(help="of weights and hidden states")] = "float32",
    measure_: Annotated[str, typer.Option("--measure", hidden=True)] = "",
) -> None:
    """Extra peak memory by tokens, ours and the plain way."""
    if measure_:
        way, number = measure_.split(",")
        print(json.dumps(measure(way, int(number), dtype)))
        return
    ours: dict[int, float | None] = {tokens: in_a_process("ours", tokens, dtype) for tokens in TOKENS}
    plain: dict[int, float | None] = {}
    for tokens in TOKENS:
        needed = 6 * 4 * VOCABULARY * tokens / MIB  # float32 copies of the logits
        plain[tokens] = (
            in_a_process("plain", tokens, dtype) if needed < psutil.virtual_memory().available / MIB else None
        )
    least, most = TOKENS
    result: dict[str, Any] = {}
    for key, found in (("growth", ours), ("plain_growth", plain)):
        low, high = found[least], found[most]
        result[key] = None if low is None or high is None else round(high / low, 3)
    result |= {f"ours_{tokens}_mib": value and round(value) for tokens, value in ours.items()}
    result |= {f"plain_{tokens}_mib": value and round(value) for tokens, value in plain.items()}
    finish(result | {"vocabulary": VOCABULARY, "dtype": dtype}, as_json)


if __name__ == "__main__":
    typer.run(main)
