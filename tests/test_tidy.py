"""The rules of CONTRIBUTING.md that a machine can check hold for every file of the repository."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "emunet"
CORE = PACKAGE / "_core"

LONGEST_FILE = 800
LONGEST_FUNCTION = 70
LONGEST_LINE = 100

LEAVES = {"units", "errors", "draws"}
"""Parts that every part may import."""

MAY_IMPORT: dict[str, set[str]] = {
    "units": set(),
    "errors": set(),
    "draws": set(),
    "_core": set(),
    "catalog": set(),
    "plugin": set(),
    "policies": {"plugin"},
    "ingest": {"catalog"},
    "scenario": {"catalog", "_core"},
    "topology": {"scenario", "ingest", "catalog"},
    "plan": {"scenario", "topology", "ingest", "plugin", "catalog", "_core"},
    "workload": {"scenario", "topology", "ingest", "catalog"},
    "trace": {"plan", "_core"},
    "analysis": {"trace", "plan", "_core"},
    "report": {"analysis", "trace", "catalog", "_core"},
    "twin": {"plan", "plugin", "_core"},
    "progress": set(),
    "info": {"_core"},
    "run": {
        "scenario",
        "topology",
        "plan",
        "plugin",
        "workload",
        "trace",
        "analysis",
        "twin",
        "progress",
        "info",
        "_core",
    },
    "cli": {
        "run",
        "catalog",
        "scenario",
        "topology",
        "plan",
        "workload",
        "trace",
        "analysis",
        "report",
        "progress",
        "info",
    },
}
"""Which part of emunet may import which other: always downwards."""

PART_OF = dict.fromkeys(("verify", "selftest", "dryrun", "interrupt", "watch", "deadlock"), "run")
"""Modules beside run.py that belong to its part."""

WALL_CLOCK_OR_CHANCE = re.compile(
    r"\b(np|numpy)\.random\b|\b(import|from) random\b|\btime\.time\(|\bdatetime\.now\(|\buuid\."
)
"""What must not come near results."""

RESULT_PARTS = (
    "_core",
    "catalog",
    "draws",
    "ingest",
    "plan",
    "plugin",
    "policies",
    "scenario",
    "topology",
    "twin",
    "workload",
)

UNFINISHED = re.compile(
    r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b"
)
MACHINE_PATH = re.compile(r"/(" + "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me")) + r")/\w")


def files(*patterns: str) -> list[Path]:
    """Text files of the project, without what is generated."""
    found = {
        p
        for pattern in patterns
        for top in ("emunet", "tests", "bench", "docs", "traces")
        for p in (ROOT / top).rglob(pattern)
    }
    found |= {p for pattern in patterns for p in ROOT.glob(pattern)}
    return sorted(p for p in found if p.is_file() and p.name != "_build.py")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def part_of(path: Path) -> str:
    """Part of the package to which a file belongs: its folder, or its name at the top."""
    parts = path.relative_to(PACKAGE).parts
    name = parts[0] if len(parts) > 1 else path.stem
    return PART_OF.get(name, name)


def imported_parts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and part of every import of emunet, except those for type checkers only."""
    hidden = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "emunet":
            names = [f"emunet.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
        for name in names:
            if name.startswith("emunet."):
                part = name.split(".")[1]
                yield node.lineno, PART_OF.get(part, part)


def test_imports_go_one_way() -> None:
    """Claim of CONTRIBUTING.md: parts import only what lies below them."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        part = part_of(path)
        if part in ("__init__", "__main__", "_build"):
            continue
        assert part in MAY_IMPORT, (
            f"{name_of(path)}: new part {part!r}; give it a row in MAY_IMPORT"
        )
        allowed = MAY_IMPORT[part] | LEAVES | {part}
        wrong += [
            f"{name_of(path)}:{line}: {part} imports {target}"
            for line, target in imported_parts(ast.parse(text_of(path)))
            if target not in allowed and target != "__version__"
        ]
    assert not wrong, "\n".join(wrong)


def test_the_import_table_has_no_cycle() -> None:
    """Claim of the table above: it is a hierarchy, so that following it cannot lead back."""
    remaining = {part: set(below) for part, below in MAY_IMPORT.items()}
    while remaining:
        free = {part for part, below in remaining.items() if not below & set(remaining)}
        assert free, f"cycle among {sorted(remaining)}"
        remaining = {part: below for part, below in remaining.items() if part not in free}


ALLOWED_CDEF = re.compile(
    r"^(cdef|ctypedef)\s+(extern|struct|packed|enum|union|class|inline|cppclass|fused)\b"
)
CDEF_FUNCTION = re.compile(r"^cdef\s+[\w\s*,.\[\]]*\b\w+\(")
MUTABLE_VALUE = re.compile(
    r"^[a-z_]\w*(\s*:[^=]+)?\s*=\s*(\[|\{|dict\(|list\(|set\(|bytearray\(|np\.(zeros|empty|ones)\()"
)


def module_state(text: str) -> Iterator[tuple[int, str]]:
    """Lines of Cython that make a variable of the module."""
    for number, line in enumerate(text.splitlines(), 1):
        is_cdef = line.startswith(("cdef ", "cdef:"))
        if (
            (is_cdef and not ALLOWED_CDEF.match(line) and not CDEF_FUNCTION.match(line))
            or MUTABLE_VALUE.match(line)
            or re.match(r"\s+global\s+\w", line)
        ):
            yield number, line


def test_the_core_has_no_module_state() -> None:
    """Claim: one Engine is one simulation, so the core keeps nothing in its modules."""
    wrong = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in sorted(CORE.rglob("*.p[yx][xd]"))
        for number, line in module_state(text_of(path))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "is_state"),
    [
        ("cdef int counter = 0", True),
        ("cdef Packet* free_list", True),
        ("cdef:", True),
        ("table = {}", True),
        ("    global counter", True),
        ("cdef inline int f(int x) noexcept nogil:", False),
        ("cdef struct Port:", False),
        ("cdef int f(Port* p,", False),
        ("cdef enum:", False),
        ("cdef class Engine:", False),
        ("    cdef int i = 0", False),
        ("NAMES = (1, 2)", False),
    ],
)
def test_module_state_is_told_from_declarations(line: str, is_state: bool) -> None:
    """Claim: the check above finds each spelling of a module variable and no declaration."""
    assert bool(list(module_state(line))) == is_state


SUFFIX = {"ps": "_ps", "bytes": "_bytes", "bit/s": "_bps"}


def test_units_are_in_the_names_of_the_plan() -> None:
    """Claim of the naming rule: a field with a unit ends in it, and a suffix never lies."""
    from emunet.plan.schema import ARRAYS, SCALARS

    for spec in (*ARRAYS, *SCALARS):
        for unit, suffix in SUFFIX.items():
            assert (spec.unit == unit) == spec.name.endswith(suffix), (
                f"{spec.name}: unit {spec.unit!r}"
            )


def test_every_field_of_the_plan_is_documented_once() -> None:
    """Claim: plan/schema.py says of every array and scalar what it means, and names each once."""
    from emunet.plan.schema import ARRAYS, SCALARS

    names = [spec.name for spec in (*ARRAYS, *SCALARS)]
    assert len(names) == len(set(names))
    assert all(spec.meaning.strip() for spec in (*ARRAYS, *SCALARS))
    for array in ARRAYS:
        assert np.dtype(array.dtype).name == array.dtype
        assert array.shape


def test_every_counter_is_documented() -> None:
    """Claim: rows.py says what every counter means; docs/trace_format.md names those stored."""
    from emunet._core import rows

    page = text_of(ROOT / "docs" / "trace_format.md")
    for table in (rows.PORT_COUNTERS, rows.CLASS_COUNTERS, rows.SWITCH_COUNTERS, rows.TOTALS):
        assert all(meaning.strip() for meaning in table.values())
    for table in (rows.PORT_COUNTERS, rows.CLASS_COUNTERS, rows.SWITCH_COUNTERS):
        assert not [name for name in table if name not in page]


POLICIES = sorted(p for p in (PACKAGE / "policies").rglob("*.py") if p.name != "__init__.py")


@pytest.mark.parametrize("path", POLICIES, ids=lambda p: p.stem)
def test_every_policy_has_source_parameters_and_claims(path: Path) -> None:
    """Claim: a policy file says its source, what each parameter means, and what should hold."""
    policy = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert "source" in (policy.__doc__ or "").lower(), "the docstring names no source"
    assert policy.CLAIMS
    assert all(isinstance(claim, str) and claim.strip() for claim in policy.CLAIMS)
    for param in policy.PARAMS:
        assert param.meaning.strip(), param.name
        assert param.low <= param.default <= param.high, param.name


def test_no_file_is_too_long() -> None:
    """Claim: a file fits one concept, at most 800 lines."""
    wrong = []
    for path in files("*.py", "*.pyx", "*.pxd"):
        lines = text_of(path).splitlines()
        if len(lines) > LONGEST_FILE:
            wrong.append(f"{name_of(path)}: {len(lines)} lines")
    assert not wrong, "\n".join(wrong)


CYTHON_FUNCTION = re.compile(
    r"^(\s*)(?:c?p?def)\s+(?!struct|enum|extern|union|packed|class)[^=]*?(\w+)\("
)


def function_lengths(path: Path) -> Iterator[tuple[int, str, int]]:
    """Line, name and length of every function."""
    text = text_of(path)
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1
        return
    lines = text.splitlines()
    for start, line in enumerate(lines):
        found = CYTHON_FUNCTION.match(line)
        if not found:
            continue
        header = start
        while not lines[header].split("#")[0].rstrip().endswith(":") and header + 1 < len(lines):
            header += 1
        last = header
        for number in range(header + 1, len(lines)):
            body = lines[number]
            if body.strip() and len(body) - len(body.lstrip()) <= len(found[1]):
                break
            if body.strip():
                last = number
        if last > header:
            yield start + 1, found[2], last - start + 1


def test_every_function_fits_a_screen() -> None:
    """Claim: no function is longer than 70 lines."""
    wrong = [
        f"{name_of(path)}:{line}: {name} has {length} lines"
        for path in files("*.py", "*.pyx", "*.pxd")
        for line, name, length in function_lengths(path)
        if length > LONGEST_FUNCTION
    ]
    assert not wrong, "\n".join(wrong)


ONE_PIECE = re.compile(r"\s*([-*>]|\d+\.)?\s*(\[[^]]*\]\(\S+\)\S?|\S+)\s*")
"""A line of Markdown that is one word, URL or link, perhaps as an item of a list."""


def long_lines(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Number and length of every line that is too long, but for what Markdown cannot break."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if name.endswith(".md"):
            in_code ^= line.lstrip().startswith("```")
            if in_code or line.lstrip().startswith("|") or ONE_PIECE.fullmatch(line):
                continue
        if len(line) > LONGEST_LINE:
            yield number, len(line)


def test_no_line_is_too_long() -> None:
    """Claim: a line has at most 100 columns; on pages, outside of tables, code and bare links."""
    wrong = [
        f"{name_of(path)}:{number}: {length} columns"
        for path in files("*.py", "*.pyx", "*.pxd", "*.yaml", "*.yml", "*.toml", "*.md")
        for number, length in long_lines(path.name, text_of(path))
    ]
    assert not wrong, "\n".join(wrong)


WORDS = "word " * 20
URL = "https://example.org/" + "x" * 100


@pytest.mark.parametrize(
    ("name", "text", "numbers"),
    [
        ("a.py", WORDS + "\n" + WORDS + ".", [2]),
        ("a.pxd", "cdef enum:\n    " + WORDS, [2]),
        ("a.yaml", "# " + URL, [1]),
        ("a.md", WORDS + ".\nshort", [1]),
        ("a.md", "| " + WORDS + "|", []),
        ("a.md", "```\n" + WORDS + ".\n```\n" + WORDS + ".", [4]),
        ("a.md", "\n".join([URL, "- " + URL, f"1. [two words]({URL}).", "see " + URL]), [4]),
    ],
)
def test_long_lines_are_told_from_what_cannot_be_broken(
    name: str, text: str, numbers: list[int]
) -> None:
    """Claim: the check above finds long lines of each kind, and spares tables, code and links."""
    assert [number for number, _ in long_lines(name, text)] == numbers


def test_nothing_is_left_unfinished() -> None:
    """Claim: the repository holds no reminders to finish something, and no paths of one machine."""
    wrong = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in files("*.py", "*.pyx", "*.pxd", "*.md", "*.toml", "Makefile")
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if UNFINISHED.search(line) or MACHINE_PATH.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_clock_and_no_chance_near_results() -> None:
    """Claim: what decides results draws by counter and reads no clock: equal in, equal out."""
    wrong = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in files("*.py", "*.pyx", "*.pxd")
        if path.is_relative_to(PACKAGE) and part_of(path) in RESULT_PARTS
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if WALL_CLOCK_OR_CHANCE.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_says_what_it_is() -> None:
    """Claim: every module and every public function opens with a docstring."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(text_of(path))
        if not ast.get_docstring(tree) and text_of(path).strip():
            wrong.append(f"{name_of(path)}: no docstring")
        wrong += [
            f"{name_of(path)}:{node.lineno}: {node.name} has no docstring"
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
            and "policies" not in path.parts
        ]
    assert not wrong, "\n".join(wrong)


def dotted_names(page: str) -> list[str]:
    return sorted(set(re.findall(r"`(emunet(?:\.\w+)+)(?:\(\))?`", page)))


def test_the_walkthrough_names_what_exists() -> None:
    """Claim: every dotted name in docs/walkthrough.md exists in this version."""
    missing = []
    for name in dotted_names(text_of(ROOT / "docs" / "walkthrough.md")):
        steps = name.split(".")
        for cut in range(len(steps), 0, -1):
            try:
                value = importlib.import_module(".".join(steps[:cut]))
            except ImportError:
                continue
            break
        try:
            for step in steps[cut:]:
                value = getattr(value, step)
        except AttributeError:
            missing.append(name)
    assert not missing, missing


def test_known_answers_are_listed() -> None:
    """Each case that a test cites is in docs/known_answers.md, and each one there is cited."""
    page = (ROOT / "docs" / "known_answers.md").read_text()
    listed = re.findall(r"^\| (K\d+) \|", page, re.MULTILINE)
    cited = {
        case
        for path in files("tests/**/*.py")
        for case in re.findall(r"\bK\d{1,2}\b", path.read_text())
    }
    assert len(set(listed)) == len(listed)
    assert cited == set(listed)
    for name in re.findall(r"(?:analytic|statistical|unit)/(test_\w+)", page):
        assert list(ROOT.glob(f"tests/*/{name}.py")), name
