"""Problems that have a chat template or an instruction in them already.

The loop puts template, system prompt and suffix around every problem itself. A set of rendered prompts would get
them twice, which trains on text that no evaluation ever asks.
"""

import re

_CHAT = re.compile(
    r"<\|(?:im_start|im_end|begin_of_text|start_header_id|eot_id|user|assistant|system|endoftext)\|>"
    r"|<start_of_turn>|\[/?INST\]|<<SYS>>|<｜(?:User|Assistant|begin▁of▁sentence)｜>"
    r"|^###? ?(?:Instruction|User|Human)\b|\n(?:Assistant|ASSISTANT): *$"
)
_INSTRUCTION = re.compile(
    r"(?:think|reason) step[- ]by[- ]step\b[^\n]{0,80}\\boxed\{\}|\\boxed\{\}[^\n]{0,80}\bthink step[- ]by[- ]step",
    re.IGNORECASE,
)


def templated(problem: str) -> str | None:
    """What to do about a problem that is a prompt already; None for a plain problem."""
    if marker := _CHAT.search(problem):
        return (
            f"the problem holds {marker.group().strip()!r}, so it is rendered for a chat model already: name the column "
            "of the plain problems, as the template, system prompt and suffix are put around it again"
        )
    if _INSTRUCTION.search(problem):
        return (
            "the problem holds an instruction to reason step by step and box the answer: name the column of the plain "
            "problems and say it in system_prompt or prompt_suffix, which every problem gets"
        )
    return None
