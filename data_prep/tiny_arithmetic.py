"""A base model and prompts small enough to train on any laptop, made from nothing.

    python -m data_prep.tiny_arithmetic --out DIR [--seed 0]

DIR/model is a Qwen2 of 0.8 million parameters with a character tokenizer, in Hugging Face's format; train.jsonl
and heldout.jsonl hold problems such as `37+58=` with the answer `95`. The model is pre-trained on right answers,
then on partly wrong ones, so it behaves like an untuned base model: it answers `\\boxed{95}`, is right about one
time in four, and nearly always within 16 tries. Reinforcement learning has something to sharpen.

The same seed on the same machine gives the same bytes.
"""

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import AddedToken
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer
from transformers.utils.logging import disable_progress_bar

from adarl.prepared import new_directory

PAD, EOS, BOXED = "<pad>", "<eos>", "\\boxed{"
TOKENS = (PAD, EOS, BOXED, "}", *"0123456789+-*=", "Ġ")  # Ġ is the byte-level spelling of a space
IDS = {token: i for i, token in enumerate(TOKENS)}

#: Share of each kind of problem, in every step of pre-training and in both files.
SHARE = {"+": 0.4, "-": 0.3, "*": 0.3}
#: Operands are below this.
LIMIT = {"+": 100, "-": 100, "*": 13}
#: Share of wrong answers in the last part of pre-training: it sets the pass rate that the model starts from.
NOISE = {"+": 0.5, "-": 0.73, "*": 0.9}

TRAIN_ROWS, HELDOUT_ROWS = 9000, 256

STEPS, BATCH, LEARNING_RATE = 1500, 128, 3e-3
CLEAN_STEPS = 1050  # the steps before the answers are corrupted


class Problem(NamedTuple):
    """`text` is `a op b =` without spaces, `answer` its value, `op` one of + - *."""

    text: str
    answer: str
    op: str


def problem(a: int, op: str, b: int) -> Problem:
    """The problem `a op b =`."""
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    return Problem(f"{a}{op}{b}=", str(value), op)


def random_problem(rng: random.Random) -> Problem:
    """A problem drawn by SHARE, its operands uniform below LIMIT."""
    op = rng.choices(list(SHARE), list(SHARE.values()))[0]
    return problem(rng.randrange(LIMIT[op]), op, rng.randrange(LIMIT[op]))


def corrupt(answer: str, rng: random.Random) -> str:
    """`answer` with one character replaced by a digit, never equal to `answer`."""
    while True:
        at = rng.randrange(len(answer))
        wrong = answer[:at] + rng.choice("0123456789") + answer[at + 1 :]
        if wrong != answer:
            return wrong


def split(seed: int) -> tuple[list[Problem], list[Problem]]:
    """(TRAIN_ROWS problems, HELDOUT_ROWS distinct ones), mixed by SHARE, no problem in both.

    Training sums and differences are all distinct; there are only 169 products, so those of the training
    file repeat. Pre-training has seen all problems: held-out means not seen in reinforcement learning.
    """
    rng = random.Random(seed)
    train: list[Problem] = []
    heldout: list[Problem] = []
    for op, share in SHARE.items():
        operands = range(LIMIT[op])
        table = [problem(a, op, b) for a in operands for b in operands]
        rng.shuffle(table)
        held = round(HELDOUT_ROWS * share)
        heldout += table[:held]
        train += itertools.islice(itertools.cycle(table[held:]), round(TRAIN_ROWS * share))
    rng.shuffle(train)
    rng.shuffle(heldout)
    return train, heldout


def rows(problems: list[Problem], name: str) -> list[dict[str, str]]:
    """The problems as records with an id."""
    return [{"id": f"{name}-{i:05d}", "problem": p.text, "answer": p.answer} for i, p in enumerate(problems)]


def encode(text: str, answer: str, width: int) -> tuple[list[int], list[int]]:
    """(input ids, labels) of `text\\boxed{answer}<eos>`, padded to `width`; only the response has labels."""
    prompt = [IDS[c] for c in text]
    response = [IDS[BOXED], *(IDS[c] for c in answer), IDS["}"], IDS[EOS]]
    padding = width - len(prompt) - len(response)
    return (
        prompt + response + [IDS[PAD]] * padding,
        [-100] * len(prompt) + response + [-100] * padding,
    )


def learning_rate_factor(step: int) -> float:
    """Linear warm-up over 50 steps, then linear decay to 3 % of the peak."""
    return min(1.0, step / 50) * max(0.03, 1 - step / STEPS)


def make_tokenizer() -> Qwen2Tokenizer:
    """One token a character, but `\\boxed{` whole; characters outside TOKENS vanish."""
    # The class that belongs to the model: AutoTokenizer makes a Qwen2Tokenizer of whatever is saved beside one.
    tokenizer = Qwen2Tokenizer(vocab=IDS, merges=[], pad_token=PAD, eos_token=EOS, unk_token=None)
    tokenizer.add_tokens([AddedToken(BOXED, normalized=False)])
    return tokenizer


def make_model() -> Qwen2ForCausalLM:
    """The untrained model, initialised from torch's generator."""
    config = Qwen2Config(
        vocab_size=len(TOKENS),
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=IDS[EOS],
        pad_token_id=IDS[PAD],
    )
    return Qwen2ForCausalLM(config)


def batches(rng: random.Random) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """STEPS pairs of (input ids, labels), each [BATCH, longest]; answers are corrupted from CLEAN_STEPS on."""
    for step in range(STEPS):
        pairs = []
        for _ in range(BATCH):
            text, answer, op = random_problem(rng)
            if step >= CLEAN_STEPS and rng.random() < NOISE[op]:
                answer = corrupt(answer, rng)
            pairs.append((text, answer))
        width = max(len(text) + len(answer) for text, answer in pairs) + 3  # \boxed{ } <eos>
        ids, labels = zip(*(encode(*pair, width) for pair in pairs), strict=True)
        yield torch.tensor(ids), torch.tensor(labels)


def pretrain(seed: int) -> Qwen2ForCausalLM:
    """The trained base model in bfloat16."""
    # What keeps the bytes the same: the seed, the order of the sums (thread count) and of the scatters.
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate_factor)
    start = time.monotonic()
    for step, (ids, labels) in enumerate(batches(random.Random(seed)), start=1):
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 300 == 0:
            print(
                f"step {step}/{STEPS}  loss {loss.item():.3f}  {time.monotonic() - start:.0f} s", flush=True
            )
    return model.to(torch.bfloat16)


def build(out: Path, seed: int) -> None:
    """Writes model, train.jsonl and heldout.jsonl into the folder `out`."""
    train, heldout = split(seed)
    for name, problems in (("train", train), ("heldout", heldout)):
        lines = (json.dumps(row) + "\n" for row in rows(problems, name))
        (out / f"{name}.jsonl").write_text("".join(lines))
    make_tokenizer().save_pretrained(out / "model")
    pretrain(seed).save_pretrained(out / "model")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the tiny arithmetic base model and its prompts.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; must not exist or be empty")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    disable_progress_bar()
    try:
        with new_directory(args.out) as staging:
            build(staging, args.seed)
    except OSError as error:
        sys.exit(f"Cannot write {args.out}: {error}")


if __name__ == "__main__":
    main()
