import subprocess
import sys
from pathlib import Path

import pytest

from adarl import prepared
from adarl.errors import UserError

BUILDER = """
import argparse, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--out", type=pathlib.Path)
out = parser.parse_args().out
(out / "model").mkdir()
(out / "model" / "weights").write_text("1 2 3")
with open({log!r}, "a") as log:
    log.write("built\\n")
time.sleep(0.5)
{ending}
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A builder `prepared:toy` that notes each build in builds.log; returns a function to change its ending."""
    modules = tmp_path / "modules"
    modules.mkdir()

    def write(ending: str = "") -> None:
        log = str(tmp_path / "builds.log")
        (modules / "toy_builder.py").write_text(BUILDER.format(log=log, ending=ending))

    write()
    monkeypatch.setitem(prepared.BUILDERS, "toy", "toy_builder")
    monkeypatch.syspath_prepend(modules)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setenv("ADARL_CACHE", str(tmp_path / "cache"))
    return write


def builds(tmp_path: Path) -> int:
    return (tmp_path / "builds.log").read_text().count("built")


def test_other_paths_pass_through_unchanged():
    assert prepared.locate("Qwen/Qwen2.5-Math-7B") == "Qwen/Qwen2.5-Math-7B"
    assert prepared.is_built("data/train.jsonl")


def test_it_is_built_once_and_found_again(toy, tmp_path):
    assert not prepared.is_built("prepared:toy/model")
    path = Path(prepared.locate("prepared:toy/model"))
    assert (path / "weights").read_text() == "1 2 3"
    assert path.parent.parent == tmp_path / "cache"
    assert path.parent.name.startswith("toy-")
    assert prepared.is_built("prepared:toy/model")
    assert prepared.locate("prepared:toy/model") == str(path)
    assert builds(tmp_path) == 1


def test_without_build_nothing_is_written(toy, tmp_path):
    path = Path(prepared.locate("prepared:toy/model", build=False))
    assert path.name == "model"
    assert not (tmp_path / "cache").exists()


def test_an_edited_builder_has_another_folder(toy):
    before = prepared.locate("prepared:toy/model", build=False)
    toy(ending="# edited")
    assert prepared.locate("prepared:toy/model", build=False) != before


def test_a_failed_build_leaves_nothing_and_can_be_repeated(toy, tmp_path):
    toy(ending="raise SystemExit(3)")
    with pytest.raises(UserError, match="Preparing toy failed: .* ended with exit code 3"):
        prepared.locate("prepared:toy/model")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    assert not prepared.is_built("prepared:toy/model")
    toy()
    assert Path(prepared.locate("prepared:toy/model")).is_dir()


def test_two_processes_that_start_together_build_it_once(toy, tmp_path):
    code = (
        "from adarl import prepared; prepared.BUILDERS['toy'] = 'toy_builder';"
        "print('at', prepared.locate('prepared:toy/model'))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    lines = [process.communicate(timeout=60)[0].splitlines()[-1] for process in processes]
    assert lines == ["at " + prepared.locate("prepared:toy/model")] * 2
    assert builds(tmp_path) == 1


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError) as error:
        prepared.locate("prepared:tiny/model")
    assert str(error.value) == (
        "'prepared:tiny' is unknown; there are prepared:smollm2, prepared:tiny_arithmetic."
    )


def test_an_unknown_subpath_lists_what_there_is(toy):
    with pytest.raises(UserError) as error:
        prepared.locate("prepared:toy/modle")
    assert str(error.value) == "'prepared:toy/modle': toy has no 'modle'; it holds model."


def test_a_folder_with_files_is_never_replaced(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="exists already"), prepared.new_directory(tmp_path):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_new_directory_vanishes_when_its_block_raises(tmp_path):
    with pytest.raises(KeyError), prepared.new_directory(tmp_path / "new") as staging:
        (staging / "half").write_text("written")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_importing_it_loads_no_heavy_library():
    code = "import sys, adarl.prepared; print({'torch', 'vllm', 'transformers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
