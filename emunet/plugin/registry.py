"""Finds policies: those that come with emunet by name, and users' own by path."""

from __future__ import annotations

import os
from pathlib import Path

from emunet.errors import ScenarioError, did_you_mean, one_of
from emunet.plugin.slots import SLOTS, Slot

POLICIES = Path(__file__).resolve().parent.parent / "policies"
"""Folder of the policies that come with emunet: a folder for each slot, a file for each policy."""


def slot_named(name: str) -> Slot:
    """The slot of this name.

    Raises
    ------
    ValueError
        There is none.
    """
    try:
        return SLOTS[name]
    except KeyError:
        raise ValueError(f"{name!r} is not a slot (slots: {', '.join(SLOTS)})") from None


def available(slot: str) -> list[str]:
    """Names of the policies of a slot, sorted."""
    folder = POLICIES / slot_named(slot).name
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def is_path(name_or_path: str | os.PathLike[str]) -> bool:
    """Whether this is a file rather than a name: it ends in ``.py`` or holds a path separator."""
    text = os.fspath(name_or_path)
    return text.endswith(".py") or "/" in text or os.sep in text


def locate(
    slot: Slot, name_or_path: str | os.PathLike[str], base_dir: str | os.PathLike[str], path: str
) -> Path:
    """File of a policy.

    Parameters
    ----------
    slot : Slot
    name_or_path : str or path
        A name from `available`, or a ``.py`` file.
    base_dir : path
        Where relative paths start.
    path : str
        Path of the value in the scenario, for errors.

    Raises
    ------
    ScenarioError
        No such policy, or no such file.
    """
    text = os.fspath(name_or_path)
    if is_path(text):
        file = Path(base_dir) / Path(text).expanduser()
        if file.is_file():
            return file
        problem = "is a folder" if file.is_dir() else "does not exist"
        raise ScenarioError(path, text, problem, "the name of a policy, or a Python file")
    names = available(slot.name)
    if text in names:
        return POLICIES / slot.name / f"{text}.py"
    fix = did_you_mean(text, names)
    if not fix and (Path(base_dir) / f"{text}.py").is_file():
        fix = f'did you mean "./{text}.py"?'
    raise ScenarioError(
        path,
        text,
        f"is not a {slot.name} policy",
        f"{one_of(names)}, or a path such as ./mine.py",
        fix,
    )
