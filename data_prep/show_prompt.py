"""The exact text and tokens that a model sees for one problem of a recipe.

python -m data_prep.show_prompt RECIPE [KEY=VALUE]... [--number 0]
"""

from typing import Annotated

import typer

from adarl.config import Recipe, load_recipe
from adarl.errors import UserError
from adarl.prepared import locate
from adarl.prompts import load_problems, render
from eval.cli import quiet_libraries, run_app
from eval.models import Model, load_tokenizer


def show_prompt(recipe: Recipe, number: int = 0) -> str:
    """The prompt of problem `number` as text, with what each token of it is, and its gold answer.

    Raises:
        UserError: the model or the data cannot be loaded, or there are fewer problems.
    """
    problems = load_problems(locate(recipe.data.path), recipe.data)
    if number >= len(problems):
        raise UserError(
            f"{recipe.data.path} holds {len(problems)} problems: number {number} is not among them"
        )
    model = Model(recipe.name, recipe.model.path, recipe.model.path)
    tokenizer = load_tokenizer(model, recipe.model.revision).tokenizer
    problem = problems[number]
    token_ids = render(problem.problem, recipe.data, tokenizer)
    template = "the tokenizer's own" if tokenizer.chat_template else "none; the plain one of adarl.prompts"
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


def main(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    number: Annotated[int, typer.Option(min=0, help="which problem of the data, from 0")] = 0,
) -> None:
    """Print one prompt as the model sees it."""
    settings = load_recipe(recipe, overrides or [])
    quiet_libraries()
    print(show_prompt(settings, number))


if __name__ == "__main__":
    run_app(main)
