"""Imports point one way: the domain needs the standard library alone."""

import subprocess
import sys

import pytest

DOMAIN = [
    "types", "seeds", "exit_conditions", "sampling", "budgets", "groups", "advantages", "metrics", "step", "draws", "protocols",
    "strategies.per_prompt", "strategies.estimated", "strategies.filtered", "strategies.two_stage",
    "selection.shuffled", "selection.bayesian", "selection.adaptive_difficulty", "selection.skip_uniform",
    "selection.screened",
]  # fmt: skip
HEAVY = ["torch", "vllm", "deepspeed", "transformers", "accelerate", "datasets", "numpy", "pydantic"]


@pytest.mark.parametrize("module", DOMAIN)
def test_the_domain_loads_no_library(module):
    code = f"import sys, adarl.{module}; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_commands_load_no_model_library_before_they_need_one():
    code = (
        "import sys, adarl.cli, adarl.train; print(sorted(set(sys.modules) & {'torch', 'vllm', 'deepspeed'}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
