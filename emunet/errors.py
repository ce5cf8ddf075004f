"""What can go wrong, as exceptions with an exit code each, and helpers that word errors alike.

Every error that a user can cause is an `EmunetError` whose text is one line: where, the value, what
is wrong, the fix.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final


class _NoValue:
    def __repr__(self) -> str:
        return "NO_VALUE"

    def __reduce__(self) -> str:
        return "NO_VALUE"


NO_VALUE: Final = _NoValue()
"""Stands for the value of an error that is about something absent."""


class EmunetError(Exception):
    """Anything that emunet reports to its user; `exit_code` is that of the command line."""

    exit_code = 1


class ScenarioError(EmunetError):
    """A value of the scenario that cannot be run.

    The text reads ``PATH: VALUE PROBLEM; FIX (allowed: ALLOWED) [WHERE]``, so `problem` continues a
    sentence that begins with the value.

    Parameters
    ----------
    path : str
        JSON path of the value: ``$.topology.links[3].rate``.
    value : object
        The value as written; `NO_VALUE` when the problem is that there is none.
    problem : str
        ``has no unit``, ``is not a host``.
    allowed : str
        What could stand there.
    fix : str
        What to write instead, or to do.
    where : str
        ``FILE:LINE:COLUMN`` of the value or the command-line option that set it.
    """

    exit_code = 2

    def __init__(
        self,
        path: str,
        value: object,
        problem: str,
        allowed: str = "",
        fix: str = "",
        *,
        where: str = "",
    ) -> None:
        self.path, self.value, self.problem = path, value, problem
        self.allowed, self.fix, self.where = allowed, fix, where
        super().__init__(path, value, problem, allowed, fix)

    @property
    def errors(self) -> list[ScenarioError]:
        """This error, or the several that it stands for."""
        return [self]

    def __str__(self) -> str:
        said = self.problem if self.value is NO_VALUE else f"{show(self.value)} {self.problem}"
        text = f"{self.path}: {said}"
        if self.fix:
            text += f"; {self.fix}"
        if self.allowed:
            text += f" (allowed: {self.allowed})"
        return f"{text} [{self.where}]" if self.where else text


class ScenarioErrors(ScenarioError):
    """Several `ScenarioError` at once; one line each. Its own fields are those of the first."""

    def __init__(self, errors: Sequence[ScenarioError]) -> None:
        flat = [one for error in errors for one in error.errors]
        if not flat:
            raise ValueError("ScenarioErrors needs at least one error")
        first = flat[0]
        super().__init__(
            first.path, first.value, first.problem, first.allowed, first.fix, where=first.where
        )
        self._errors = flat
        self.args = (flat,)

    @property
    def errors(self) -> list[ScenarioError]:
        """Every error, in the order found."""
        return list(self._errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self._errors)


class InputFileError(EmunetError):
    """A file of flows, topology or sizes that cannot be read.

    The text reads ``flows.csv:12:3: "abc" is not a host number; FIX``.

    Parameters
    ----------
    file : str or path
        File as the user named it.
    line, column : int
        One-based; 0 when the problem is the whole file or line.
    token : object
        The offending text; `NO_VALUE` when something is missing.
    problem, fix : str
        As in `ScenarioError`.

    Attributes
    ----------
    named_at : str
        Path of the scenario's entry that names the file, if a scenario does.
    """

    exit_code = 3

    def __init__(
        self, file: object, line: int, column: int, token: object, problem: str, fix: str = ""
    ) -> None:
        self.file, self.line, self.column = str(file), line, column
        self.token, self.problem, self.fix = token, problem, fix
        self.named_at = ""
        super().__init__(self.file, line, column, token, problem, fix)

    def __str__(self) -> str:
        at = self.file
        if self.line:
            at += f":{self.line}:{self.column}" if self.column else f":{self.line}"
        said = self.problem if self.token is NO_VALUE else f"{show(self.token)} {self.problem}"
        text = f"{at}: {said}; {self.fix}" if self.fix else f"{at}: {said}"
        return f"{text} [{self.named_at}]" if self.named_at else text


class OutputError(EmunetError):
    """The file that was named for results cannot be made."""

    exit_code = 2


class UsageError(EmunetError):
    """What was asked for does not exist."""

    exit_code = 2


class RunIncomplete(EmunetError):
    """The run ended while flows were unfinished.

    Parameters
    ----------
    summary : str
        One line: how many of how many, and at which time.
    reasons : sequence of str
        One line for each unfinished flow: what it waits for.
    """

    exit_code = 4

    def __init__(self, summary: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(summary, tuple(reasons))
        self.summary, self.reasons = summary, tuple(reasons)

    def __str__(self) -> str:
        return "\n".join((self.summary, *self.reasons))


class EngineError(EmunetError):
    """The engine stopped, not by the scenario's fault: broken audit, memory, unreadable state.

    Parameters
    ----------
    message : str
        What happened, in one line.
    time_ps : int
        Simulated time; -1 if it has none.
    entity : str
        Node, port or flow; may be empty.
    """

    def __init__(self, message: str, *, time_ps: int = -1, entity: str = "") -> None:
        super().__init__(message)
        self.message, self.time_ps, self.entity = message, time_ps, entity

    def __str__(self) -> str:
        at = [f"t = {self.time_ps} ps"] if self.time_ps >= 0 else []
        at += [self.entity] if self.entity else []
        return f"{self.message} ({', '.join(at)})" if at else self.message


class PluginError(EmunetError):
    """A policy failed while running, or cannot run at all; the text shows the user's own line.

    Parameters
    ----------
    message : str
        What happened.
    file : str or path
        Policy file; may be empty.
    line : int
        One-based line in it; 0 if unknown.
    source : str
        Text of that line.
    """

    exit_code = 3

    def __init__(self, message: str, file: object = "", line: int = 0, source: str = "") -> None:
        super().__init__(message, str(file), line, source)
        self.message, self.file, self.line, self.source = message, str(file), line, source.strip()

    def __str__(self) -> str:
        at = (
            f"{self.file}:{self.line}: "
            if self.file and self.line
            else f"{self.file}: "
            if self.file
            else ""
        )
        return f"{at}{self.message}\n    {self.source}" if self.source else f"{at}{self.message}"


class PolicyFileError(PluginError):
    """The text of a policy file is wrong; found before anything runs."""

    exit_code = 2


def show(value: object, limit: int = 60) -> str:
    """A value as the user wrote it, in one short line; text in double quotes."""
    if isinstance(value, (str, bool)) or value is None:
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, (Mapping, list, tuple)):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "\u2026"


def nearest(name: object, choices: Iterable[object]) -> str | None:
    """The choice that `name` was most probably meant to be, or None if none is close."""
    known = {str(choice).lower(): str(choice) for choice in choices}
    found = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.6)
    return known[found[0]] if found else None


def did_you_mean(name: object, choices: Iterable[object]) -> str:
    """``did you mean "..."?`` with the nearest choice, or an empty text."""
    found = nearest(name, choices)
    return f'did you mean "{found}"?' if found else ""


def one_of(choices: Iterable[object], limit: int = 20) -> str:
    """Choices as a list to read; long lists are cut."""
    names = [str(choice) for choice in choices]
    return ", ".join(names[:limit]) + (f", ... ({len(names)} in all)" if len(names) > limit else "")


class Problems:
    """Collects errors so that all are reported at once.

    Parameters
    ----------
    locate : callable, optional
        Gives ``FILE:LINE:COLUMN`` of a path: pass ``scenario.locate``.

    Examples
    --------
    >>> problems = Problems()
    >>> problems.add("$.workload[0].incast.receiver", 99, "is not a host", "0 to 63")
    >>> problems.check()
    Traceback (most recent call last):
    emunet.errors.ScenarioError: $.workload[0].incast.receiver: 99 is not a host (allowed: 0 to 63)
    """

    def __init__(self, locate: Callable[[str], str] | None = None) -> None:
        self.errors: list[ScenarioError] = []
        self._locate = locate

    def add(self, path: str, value: object, problem: str, allowed: str = "", fix: str = "") -> None:
        """Note one problem; the parameters are those of `ScenarioError`."""
        where = self._locate(path) if self._locate else ""
        self.errors.append(ScenarioError(path, value, problem, allowed, fix, where=where))

    def host(self, path: str, value: Any, names: Sequence[str], n_host: int) -> int:
        """Number of the host that `value` (a number or a name) means; -1 after noting why not."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < n_host:
            return value
        hosts = names[:n_host]
        if isinstance(value, str) and value in hosts:
            return hosts.index(value)
        fix = did_you_mean(value, hosts) if isinstance(value, str) else ""
        kind = "is a switch, not a host" if value in names[n_host:] else "is not a host"
        self.add(path, value, kind, f"host numbers 0 to {n_host - 1}, or their names", fix)
        return -1

    def check(self) -> None:
        """Raise what was noted: nothing, the one error, or all of them as `ScenarioErrors`."""
        raise_errors(self.errors)


def raise_errors(errors: Sequence[ScenarioError]) -> None:
    """Raise the one error, or several as `ScenarioErrors`; nothing for none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ScenarioErrors(errors)
