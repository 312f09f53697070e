"""The `adarl` command."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from adarl.config import load_recipe
from adarl.errors import UserError
from adarl.launch import deepspeed_command, num_local_devices, prepare_environment, run_launcher
from adarl.run_folder import choose_folder
from adarl.train import main as train_here
from adarl.train import print_error

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def adarl() -> None:
    """Reinforce-Ada: adaptive sampling for reinforcement-learning post-training of language models."""


RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="a YAML file, for example recipes/tiny_cpu.yaml")
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="keys of the recipe to change")
]


@app.command()
def train(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    num_devices: Annotated[
        int | None, typer.Option(min=1, help="devices of this machine to use; default all")
    ] = None,
    hostfile: Annotated[str | None, typer.Option(help="DeepSpeed hostfile, for several nodes")] = None,
) -> None:
    """Train a recipe: in this process on one device, under the deepspeed launcher on several."""
    changes = overrides or []
    checked = load_recipe(recipe, changes)  # a mistake shows here, once, and not on every rank
    devices = num_devices or num_local_devices()
    if hostfile is not None and not Path(hostfile).is_file():
        raise UserError(
            f"--hostfile {hostfile}: there is no such file; write lines of `host slots=8` into one"
        )
    if devices == 1 and hostfile is None:
        raise typer.Exit(train_here([recipe, *changes]))
    if checked.run.dir is None:  # one name for all ranks
        changes = [*changes, f"run.dir={choose_folder(checked)}"]
    raise typer.Exit(run_launcher(deepspeed_command([recipe, *changes], devices, hostfile)))


@app.command()
def export(
    source: Annotated[
        Path, typer.Argument(metavar="RUN_OR_CHECKPOINT", help="a run directory or a checkpoint")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="a new folder")],
) -> None:
    """Make a Hugging Face model of a checkpoint, which vLLM and transformers load."""
    prepare_environment()
    from adarl.export import export

    found = export(source, out)
    print(f"adarl: {found} exported to {out}")


@app.command()
def check(
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE...", help="YAML files")],
    devices: Annotated[
        int | None, typer.Option(min=1, help="ranks to plan for; default those of this machine")
    ] = None,
    device_memory_gib: Annotated[
        float | None, typer.Option(min=0, help="memory of one, to say what does not fit")
    ] = None,
    show_prompt: Annotated[
        bool, typer.Option("--show-prompt", help="print text and tokens of the first prompt instead")
    ] = False,
) -> None:
    """Validate recipes and print their plans. Exit code 2: one is not valid; 1: one does not fit the devices given."""
    prepare_environment()
    if show_prompt:
        from adarl.show_prompt import show_prompt as shown

        for recipe in recipes:
            print(shown(load_recipe(recipe)))
        return
    from adarl.check import check_all

    memory = None if device_memory_gib is None else int(device_memory_gib * 2**30)
    problems, num_misfits = check_all(recipes, devices or num_local_devices(), memory)
    if problems:
        raise UserError("\n".join(problems))
    raise typer.Exit(1 if num_misfits and (devices or memory) else 0)


def main() -> None:
    """Entry point: a mistake of the user's is a sentence and exit code 2."""
    try:
        app(standalone_mode=True)
    except UserError as error:
        print_error(error)
        sys.exit(2)
