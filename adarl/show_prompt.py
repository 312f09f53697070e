"""`adarl check --show-prompt`: the exact text and tokens that the model sees for one prompt of a recipe."""

from adarl.config import Recipe
from adarl.prepared import locate
from adarl.prompts import load_problems, render
from eval.models import Model, load_tokenizer


def show_prompt(recipe: Recipe) -> str:
    """The prompt of the data's first problem as text, then what each token of it is, and its gold answer.

    Raises:
        UserError: the model's tokenizer or the data cannot be loaded.
    """
    problem = load_problems(locate(recipe.data.path), recipe.data)[0]
    model = Model(recipe.name, recipe.model.path, recipe.model.path)
    tokenizer = load_tokenizer(model, recipe.model.revision).tokenizer
    token_ids = render(problem.problem, recipe.data, tokenizer)
    template = "the tokenizer's own" if tokenizer.chat_template else "none; the plain one of adarl/prompts.py"
    pieces = " ".join(f"{id}:{tokenizer.decode([id])!r}" for id in token_ids)
    return "\n".join(
        [
            f"problem {problem.id} of {recipe.data.path}, chat template of {recipe.model.path}: {template}",
            "---- text",
            tokenizer.decode(token_ids, clean_up_tokenization_spaces=False),
            f"---- {len(token_ids)} tokens (limit data.max_prompt_tokens = {recipe.data.max_prompt_tokens})",
            pieces,
            "---- gold",
            problem.answer,
        ]
    )
