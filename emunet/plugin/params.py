"""Parameters of a policy: declaration, ranges, values from a named set and from overrides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from emunet.errors import NO_VALUE, ScenarioError, did_you_mean, one_of, raise_errors
from emunet.units import UnitError, parse_rate, parse_ratio, parse_size, parse_time

Number = int | float

SUFFIXES: Mapping[str, str] = {"bit/s": "_bps", "bytes": "_bytes", "ps": "_ps"}
"""Unit of a parameter and the ending that its name must have."""

_PARSERS: Mapping[str, Callable[[str], Number]] = {
    "bit/s": parse_rate,
    "bytes": parse_size,
    "ps": parse_time,
    "": parse_ratio,
}
_EXAMPLES = {"bit/s": '"40Gbps"', "bytes": '"2MB"', "ps": '"55us"'}


class ParamError(ValueError):
    """A value that a parameter cannot take.

    Attributes
    ----------
    problem, allowed, fix : str
        As in `emunet.errors.ScenarioError`.
    """

    def __init__(self, problem: str, allowed: str = "", fix: str = "") -> None:
        super().__init__("; ".join(part for part in (problem, fix) if part))
        self.problem, self.allowed, self.fix = problem, allowed, fix


@dataclass(frozen=True)
class Param:
    """One parameter of a policy.

    Parameters
    ----------
    name : str
        Field of the hook's `params`. With the unit bit/s, bytes or ps it ends in ``_bps``,
        ``_bytes`` or ``_ps``.
    default : int or float
        Value when nothing else is said; its type is the parameter's (int64 or double).
    unit : str
        ``bit/s``, ``bytes``, ``ps``, or an empty text for a plain number.
    low, high : int or float
        Least and greatest value allowed.
    meaning : str
        One line, with the source of the default.
    """

    name: str
    default: Number
    unit: str
    low: Number
    high: Number
    meaning: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"{self.name!r} is not a name for a parameter")
        if isinstance(self.default, bool) or not isinstance(self.default, (int, float)):
            raise ValueError(f"parameter {self.name}: the default must be an int or a float")
        if self.unit and self.unit not in SUFFIXES:
            units = ", ".join(SUFFIXES)
            raise ValueError(
                f"parameter {self.name}: unit {self.unit!r} is not one of {units}, or empty"
            )
        if self.unit and not self.name.endswith(SUFFIXES[self.unit]):
            raise ValueError(
                f"parameter {self.name}: a value in {self.unit} has a name that ends in "
                f"{SUFFIXES[self.unit]!r}"
            )
        if not self.meaning:
            raise ValueError(f"parameter {self.name} has no meaning: say what it is in one line")
        if not self.low <= self.default <= self.high:
            raise ValueError(
                f"parameter {self.name}: the default {self.default} is not between "
                f"{self.low} and {self.high}"
            )

    @property
    def dtype(self) -> str:
        """Field type: ``i8`` or ``f8``, as the default is an int or a float."""
        return "f8" if isinstance(self.default, float) else "i8"

    @property
    def short(self) -> str:
        """The name without its unit; accepted for values that carry a unit."""
        return self.name.removesuffix(SUFFIXES[self.unit]) if self.unit else self.name

    @property
    def allowed(self) -> str:
        """The range, in words."""
        unit = f" {self.unit}" if self.unit else ""
        kind = "" if self.dtype == "f8" else "whole numbers "
        text = f"{kind}{self.low} to {self.high}{unit}"
        return f"{text}, such as {_EXAMPLES[self.unit]}" if self.unit else text

    def convert(self, value: Any, unit_needed: bool = False) -> Number:
        """The value as this parameter stores it.

        Parameters
        ----------
        value : int, float, bool or str
            A number in the parameter's unit, or text such as ``40Gbps``, ``55us``, ``1/256``.
        unit_needed : bool
            Refuse bare numbers other than 0, because nothing says their unit.

        Raises
        ------
        ParamError
            Not a number, not whole, or out of range.
        """
        number = self._number(value, unit_needed)
        if isinstance(number, float) and not math.isfinite(number):
            raise ParamError("is not a finite number", self.allowed)
        if self.dtype == "i8":
            if number != int(number):
                raise ParamError("is not a whole number", self.allowed)
            number = int(number)
        else:
            number = float(number)
        if not self.low <= number <= self.high:
            raise ParamError("is out of range", self.allowed)
        return number

    def _number(self, value: Any, unit_needed: bool) -> Number:
        if isinstance(value, str):
            try:
                return _PARSERS[self.unit](value)
            except UnitError as error:
                if self.unit and not unit_needed:
                    bare = _bare(value)
                    if bare is not None:
                        return bare
                raise ParamError(error.problem, error.allowed, error.fix) from None
        if isinstance(value, (bool, np.bool_)):
            if (self.low, self.high) != (0, 1):
                raise ParamError("is not a number", self.allowed)
            return int(value)
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise ParamError("is not a number", self.allowed)
        if unit_needed and value != 0:
            fix = (
                f"write its unit, such as {_EXAMPLES[self.unit]}, or name the parameter {self.name}"
            )
            raise ParamError("has no unit", self.allowed, fix)
        return value.item() if isinstance(value, np.generic) else value


def _bare(text: str) -> Number | None:
    """Text that is only digits, as a number: command lines give numbers as text."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


class ParamSet:
    """The declared parameters of one policy.

    Parameters
    ----------
    params : tuple of Param
        In the order of the record's fields.
    """

    def __init__(self, params: tuple[Param, ...]) -> None:
        self.params = params
        self.by_name = {param.name: param for param in params}
        self.by_short = {param.short: param for param in params}
        if len(self.by_name) != len(params) or len(self.by_short) != len(params):
            raise ValueError("two parameters have the same name")
        self.dtype = np.dtype([(param.name, param.dtype) for param in params], align=True)

    def __len__(self) -> int:
        return len(self.params)

    def __iter__(self) -> Iterator[Param]:
        return iter(self.params)

    def convert(self, name: str, value: Any) -> tuple[str, Number]:
        """Full name and stored value of one parameter, named with or without its unit.

        Raises
        ------
        KeyError
            No such parameter.
        ParamError
            As `Param.convert`.
        """
        param = self.by_name.get(name)
        if param is not None:
            return param.name, param.convert(value)
        param = self.by_short[name]
        return param.name, param.convert(value, unit_needed=True)

    def values(self, *layers: tuple[str, Mapping[str, Any]]) -> dict[str, Number]:
        """Value of every parameter: the defaults, then each layer over the one before.

        Parameters
        ----------
        layers : pairs of str and mapping
            Path for error messages, such as ``$.transport.cc_params``, and values by name.

        Raises
        ------
        ScenarioError
            Unknown names and values that cannot be taken, each with its path; all of them at once.
        """
        values = {param.name: param.convert(param.default) for param in self.params}
        errors = []
        for path, layer in layers:
            for key, given in layer.items():
                try:
                    name, value = self.convert(str(key), given)
                except KeyError:
                    fix = did_you_mean(key, [*self.by_name, *self.by_short])
                    errors.append(
                        ScenarioError(
                            f"{path}.{key}",
                            NO_VALUE,
                            "is not a parameter of this policy",
                            one_of(self.by_name) or "none",
                            fix,
                        )
                    )
                except ParamError as error:
                    errors.append(
                        ScenarioError(
                            f"{path}.{key}", given, error.problem, error.allowed, error.fix
                        )
                    )
                else:
                    values[name] = value
        raise_errors(errors)
        return values

    def pack(self, values: Mapping[str, Number]) -> np.recarray:
        """The values as a record array of length one."""
        record = np.zeros(1, self.dtype)
        for name, value in values.items():
            record[name][0] = value
        return record.view(np.recarray)
