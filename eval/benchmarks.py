"""Which benchmarks there are (benchmarks.yaml), and their problems, checked before any model loads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from adarl.errors import UserError
from adarl.prompts import Problem
from eval.files import digest_of
from eval.rows import Row, field, hub_rows, local_rows, text

CATALOGUE = Path(__file__).parent / "benchmarks.yaml"
PAPER = ("math500", "minerva_math", "olympiadbench", "aime_like")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Columns(_Entry):
    id: str | None = None  # None: the column "id" where there is one, else the row number
    problem: str = "problem"
    answer: str = "answer"


class LocalFile(_Entry):
    file: str
    count: int
    columns: Columns = Columns()


class HubSet(_Entry):
    id: str
    revision: str
    split: str
    count: int
    columns: Columns = Columns()


class Benchmark(_Entry):
    """One set of problems: where it lies, how many there are, under which licence."""

    local: LocalFile | None = None
    hub: HubSet | None = None
    licence: str


class Catalogue(_Entry):
    """The file of benchmarks."""

    benchmarks: dict[str, Benchmark]
    groups: dict[str, list[str]] = {}


@dataclass(frozen=True, slots=True)
class Listed:
    """One name of the command line: itself, or the benchmarks of a group."""

    name: str
    members: tuple[str, ...]

    @property
    def is_group(self) -> bool:
        return self.members != (self.name,)


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """The problems of one benchmark that are evaluated, and where they come from."""

    benchmark: str
    problems: tuple[Problem, ...]
    whole_count: int  # of the benchmark, before any limit
    source: str

    @property
    def digest(self) -> str:
        """64 bits of the SHA-256 of ids, problems and answers."""
        return digest_of([(p.id, p.problem, p.answer) for p in self.problems])


def read_catalogue(path: Path = CATALOGUE) -> Catalogue:
    """The benchmarks of a YAML file.

    Raises:
        UserError: not readable, unknown keys, or a group of a benchmark that is not there.
    """
    try:
        catalogue = Catalogue.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise UserError("\n".join(f"{path}: {problem}" for problem in problems)) from error
    for group, members in catalogue.groups.items():
        for member in members:
            if member not in catalogue.benchmarks:
                raise UserError(f"{path}: group {group} names {member}, which is no benchmark of the file")
    return catalogue


def listed(names: Sequence[str], catalogue: Catalogue) -> list[Listed]:
    """The named benchmarks and groups, each once.

    Raises:
        UserError: a name is unknown, or there is none.
    """
    known = [*catalogue.benchmarks, *catalogue.groups]
    for name in names:
        if name not in known:
            raise UserError(f"unknown benchmark {name!r}; there are {', '.join(known)}")
    if not names:
        raise UserError(f"no benchmark named; there are {', '.join(known)}")
    return [Listed(name, tuple(catalogue.groups.get(name, [name]))) for name in dict.fromkeys(names)]


def load_sets(
    chosen: Sequence[Listed], catalogue: Catalogue, data_dir: Path | None, limit: int | None
) -> list[ProblemSet]:
    """The problems of every benchmark that is named, alone or in a group; each benchmark once.

    With a limit, of each name only so many: the first of its file, and of a group the first of its members
    in turn.

    Raises:
        UserError: a file or data set is missing, lacks a column, or holds another number of problems.
    """
    names = dict.fromkeys(member for item in chosen for member in item.members)
    whole = {name: _load(name, catalogue.benchmarks[name], data_dir) for name in names}
    if limit is None:
        return list(whole.values())
    kept = {(name, id) for item in chosen for name, id in _first(item, whole, limit)}
    limited = [
        ProblemSet(
            s.benchmark,
            tuple(p for p in s.problems if (s.benchmark, p.id) in kept),
            s.whole_count,
            s.source,
        )
        for s in whole.values()
    ]
    return [s for s in limited if s.problems]


def _first(item: Listed, sets: dict[str, ProblemSet], limit: int) -> Iterable[tuple[str, str]]:
    """The names of `limit` problems, one of each member in turn."""
    by_member = [[(name, p.id) for p in sets[name].problems] for name in item.members]
    in_turn = (entry for entry in chain.from_iterable(zip_longest(*by_member)) if entry is not None)
    return islice(in_turn, limit)


def _load(name: str, benchmark: Benchmark, data_dir: Path | None) -> ProblemSet:
    place: LocalFile | HubSet
    if data_dir is not None:
        if benchmark.local is None:
            raise UserError(
                f"benchmark {name} has no local file declared; leave DATA_DIR out to load it from the hub"
            )
        place, source = benchmark.local, benchmark.local.file
        rows: Iterable[Row] = _rows_in(data_dir, name, benchmark.local.file)
    else:
        if benchmark.hub is None:
            raise UserError(
                f"benchmark {name} is not on the hub; give DATA_DIR, a folder that holds {benchmark.local and benchmark.local.file}"
            )
        place, source = benchmark.hub, f"{benchmark.hub.id}@{benchmark.hub.revision}"
        try:
            rows = hub_rows(benchmark.hub.id, benchmark.hub.split, benchmark.hub.revision)
        except UserError as error:
            raise UserError(
                f"benchmark {name}: {error}; or give DATA_DIR, a folder with local copies"
            ) from error
    problems = _problems(rows, place.columns, f"benchmark {name} ({source})")
    if len(problems) != place.count:
        raise UserError(
            f"benchmark {name}: {source} holds {len(problems)} problems, but {place.count} are declared: "
            "this is another set, or correct the count in the file of benchmarks"
        )
    return ProblemSet(name, tuple(problems), len(problems), source)


def _rows_in(data_dir: Path, name: str, file: str) -> list[Row]:
    if not data_dir.is_dir():
        raise UserError(f"DATA_DIR {data_dir}: there is no such folder")
    if not (data_dir / file).is_file():
        held = ", ".join(sorted(p.name for p in data_dir.glob("*.jsonl"))) or "no .jsonl file"
        raise UserError(f"DATA_DIR {data_dir}: benchmark {name} needs {file} there; the folder holds {held}")
    return local_rows(data_dir / file)


def _problems(rows: Iterable[Row], columns: Columns, where: str) -> list[Problem]:
    problems = []
    ids: set[str] = set()
    for number, row in enumerate(rows):
        at = f"{where}, row {number}"
        column = columns.id or ("id" if "id" in row else None)
        id = str(number) if column is None else text(field(row, column, at))
        problem = text(field(row, columns.problem, at))
        answer = text(field(row, columns.answer, at))
        if id in ids:
            raise UserError(f"{at}: id {id!r} is there twice")
        if not problem.strip() or not answer.strip():
            raise UserError(f"{at}: the problem or its answer is empty")
        ids.add(id)
        problems.append(Problem(id, problem, answer))
    return problems
