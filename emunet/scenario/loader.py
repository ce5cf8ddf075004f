"""From files and text to a `Scenario`; every problem is a `ScenarioError` with path and line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ValidationError

from emunet.errors import ScenarioError, raise_errors
from emunet.scenario.base import findings, spell_path
from emunet.scenario.document import Node, read_file, read_text
from emunet.scenario.overrides import apply_overrides
from emunet.scenario.scenario import Scenario, Source


def load_scenario(
    path: Path | str, overrides: Iterable[str] = (), base_dir: Path | str | None = None
) -> Scenario:
    """Read a scenario file.

    Parameters
    ----------
    path : path
        YAML file.
    overrides : iterable of str
        Settings ``a.b[0].c=value``, put in before the check, in order.
    base_dir : path, optional
        Folder from which relative paths in the scenario are seen; by default that of the file.

    Raises
    ------
    ScenarioError
        Or `ScenarioErrors` with all that is wrong.
    """
    root = read_file(path)
    return _scenario(
        root, str(path), overrides, Path(path).parent if base_dir is None else Path(base_dir)
    )


def parse_scenario(
    text: str,
    overrides: Iterable[str] = (),
    base_dir: Path | str | None = None,
    name: str = "<text>",
) -> Scenario:
    """As `load_scenario`, from YAML text; `name` stands for the file in errors."""
    root = read_text(text, name)
    return _scenario(root, name, overrides, Path.cwd() if base_dir is None else Path(base_dir))


def _scenario(root: Node, name: str, overrides: Iterable[str], base_dir: Path) -> Scenario:
    if not isinstance(root.value, dict):
        raise ScenarioError(
            "$",
            root.plain(),
            "is not a mapping",
            "a mapping with at least a topology",
            where=root.where,
        )
    apply_overrides(root, overrides)
    try:
        scenario = BaseModel.model_validate.__func__(  # type: ignore[attr-defined]
            Scenario, root.plain(), context={"text": True}
        )
    except ValidationError as error:
        raise_errors(
            [
                ScenarioError(
                    spell_path(f.at), f.value, f.problem, f.allowed, f.fix, where=root.locate(f.at)
                )
                for f in findings(error)
            ]
        )
        raise
    scenario._source = Source(name, base_dir, root)
    return scenario
