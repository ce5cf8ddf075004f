"""Text files as people have them (gzip, byte-order marks, CRLF), and tokens that know their column.

Numbers are read as decimal strings and become integers exactly; nothing here passes through a
float.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, NoReturn, cast

from emunet.errors import NO_VALUE, InputFileError, did_you_mean
from emunet.units import INT64_MAX, TIME_UNITS

LINE_LIMIT = 65536
"""Longest line read, in characters; longer ones are not flow lists or tables."""

Token = tuple[str, int]
"""Text and its one-based column."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_WORD = re.compile(r"\S+")
_CELL = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,#"]*))\s*(,|#|$)')
_DIGITS_LIMIT = 40
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""What `surrogateescape` makes of bytes that are not UTF-8."""


class NumberProblem(ValueError):
    """A token that is not the number wanted; `problem` continues a sentence begun by the token."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


class Source:
    """An open text file and the line that is being read.

    Parameters
    ----------
    path : pathlib.Path
        File to read.
    name : str
        The file as the user named it, for errors.

    Attributes
    ----------
    line, line_number : str, int
        The present line without its end, and its one-based number.
    compressed : bool
        The file is gzip.
    split : callable
        How a line becomes tokens with columns; `words` unless the dialect says `cells`.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path, self.name = path, name or str(path)
        self.line, self.line_number = "", 0
        self.split: Callable[[Source, str], list[Token]] = Source.words
        start = self._head()
        self.compressed = start[:2] == b"\x1f\x8b"
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputFileError(self.name, 0, 0, NO_VALUE, "is UTF-16 text", "save it as UTF-8")

    def _head(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                return file.read(4)
        except FileNotFoundError:
            raise missing_file(self.path, self.name) from None
        except IsADirectoryError:
            raise InputFileError(
                self.name, 0, 0, NO_VALUE, "is a directory", "name the file in it"
            ) from None
        except OSError as error:
            raise InputFileError(
                self.name, 0, 0, NO_VALUE, f"cannot be read: {error.strerror}"
            ) from None

    def digest(self) -> str:
        """blake2b of the file's bytes as they lie on disk, 32 hex digits."""
        hasher = hashlib.blake2b(digest_size=16)
        with open(self.path, "rb") as file:
            while block := file.read(1 << 20):
                hasher.update(block)
        return hasher.hexdigest()

    def lines(self) -> Iterator[str]:
        """Every line from the first, without line ends; `line` and `line_number` follow."""
        self.line, self.line_number = "", 0
        with (
            self._open() as raw,
            io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape") as text,
        ):
            while True:
                try:
                    line = text.readline(LINE_LIMIT)
                except (OSError, EOFError, zlib.error) as error:
                    raise InputFileError(
                        self.name,
                        self.line_number + 1,
                        0,
                        NO_VALUE,
                        f"the compressed file is damaged: {error}",
                    ) from None
                if not line:
                    return
                self.line_number += 1
                self.line = line.rstrip("\r\n")
                if len(line) == LINE_LIMIT or "\0" in line:
                    raise InputFileError(
                        self.name, self.line_number, 0, NO_VALUE, "is not a line of text"
                    )
                if not line.isascii():
                    self._must_be_utf8(line)
                yield self.line

    def _must_be_utf8(self, line: str) -> None:
        """Refuse the line if it holds a byte that is no UTF-8, comments included."""
        bad = _NOT_UTF8.search(line)
        if bad:
            raise InputFileError(
                self.name,
                self.line_number,
                bad.start() + 1,
                NO_VALUE,
                f"the byte 0x{ord(bad.group()) - 0xDC00:02X} is not UTF-8 text",
                "save the file as UTF-8",
            )

    def _open(self) -> IO[bytes]:
        return (
            cast(IO[bytes], gzip.open(self.path, "rb"))
            if self.compressed
            else open(self.path, "rb")
        )

    def words(self, line: str) -> list[Token]:
        """Tokens between blanks, up to a ``#``."""
        return [(m.group(), m.start() + 1) for m in _WORD.finditer(line.partition("#")[0])]

    def cells(self, line: str) -> list[Token]:
        """Comma-separated cells, in double quotes or plain, up to a ``#`` outside quotes."""
        found: list[Token] = []
        at = 0
        while True:
            match = _CELL.match(line, at)
            if match is None:
                self.fail_at(
                    at + 1,
                    line[at:].strip(),
                    "has a stray double quote",
                    'inside quotes, write "" for one',
                )
            quoted = match.group(1)
            if quoted is not None:
                found.append((quoted.replace('""', '"'), match.start(1) + 1))
            else:
                found.append((match.group(2).rstrip(), match.start(2) + 1))
            at = match.end()
            if match.group(3) != ",":
                return found if len(found) > 1 or found[0][0] else []

    def fail(self, index: int, problem: str, fix: str = "") -> NoReturn:
        """Raise `InputFileError` about token `index` of the line; behind the last it is missing."""
        tokens = self.split(self, self.line)
        if index < len(tokens):
            token, column = tokens[index]
            raise InputFileError(
                self.name, self.line_number, column, token or NO_VALUE, problem, fix
            )
        self.fail_at(len(self.line.rstrip()) + 1, NO_VALUE, problem, fix)

    def fail_at(self, column: int, token: object, problem: str, fix: str = "") -> NoReturn:
        """Raise `InputFileError` about a column of the present line."""
        raise InputFileError(self.name, self.line_number, column, token, problem, fix)


def missing_file(path: Path, name: str) -> InputFileError:
    """The error of a file that does not exist, with the nearest name in its directory."""
    parent = path.parent
    if not parent.is_dir():
        return InputFileError(
            name, 0, 0, NO_VALUE, "does not exist", f"there is no directory {parent}"
        )
    fix = did_you_mean(path.name, sorted(entry.name for entry in parent.iterdir()))
    return InputFileError(name, 0, 0, NO_VALUE, "does not exist", fix)


def parse_whole(token: str, scale: int, what: str, unit: str) -> int:
    """Exact value of a decimal token times `scale`: a whole, non-negative int64.

    Parameters
    ----------
    token : str
        Decimal digits, perhaps with a point or exponent: ``1500``, ``1.5``, ``3e+07``.
    scale : int
        Base units in one of the token's.
    what, unit : str
        For errors: ``"a size"``, ``"bytes"``.

    Raises
    ------
    NumberProblem
        With the end of a sentence that begins with the token.
    """
    value = parse_decimal(token, what) * scale
    if value != value.to_integral_value():
        raise NumberProblem(
            f"is not a whole number of {unit}", f"nearest: {value.to_integral_value()} {unit}"
        )
    return check_range(int(value), what, unit)


def parse_time_ps(token: str, scale_ps: int) -> tuple[int, bool]:
    """Time in ps of a decimal token, and whether it had to be rounded (half to even)."""
    value = parse_decimal(token, "a time") * scale_ps
    rounded = value.to_integral_value()
    return check_range(int(rounded), "a time", "ps"), rounded != value


def parse_decimal(token: str, what: str) -> Decimal:
    """Exact non-negative decimal value of a token; raises `NumberProblem`."""
    if len(token) > _DIGITS_LIMIT or not _NUMBER.fullmatch(token):
        letters = re.fullmatch(r"([0-9.]+)\s*([A-Za-z/]+)", token)
        fix = f'did you mean "{letters[1]}"? the unit belongs to the column' if letters else ""
        raise NumberProblem(
            f"is not {what}; digits are expected" if not fix else f"is not {what} in plain digits",
            fix,
        )
    value = Decimal(token)
    if value < 0:
        raise NumberProblem("is negative", f"{what} is at least 0")
    if value and not -_DIGITS_LIMIT < value.adjusted() < _DIGITS_LIMIT:
        raise NumberProblem(f"is far out of range for {what}")
    return value


def check_range(value: int, what: str, unit: str) -> int:
    """`value`, if it is within int64; raises `NumberProblem`."""
    if value > INT64_MAX:
        raise NumberProblem(f"is too large for {what}", f"the largest is {INT64_MAX} {unit}")
    return value


def time_scale_ps(unit: str) -> int:
    """Picoseconds in a unit named as in `emunet.units.TIME_UNITS`."""
    return TIME_UNITS[unit]


def format_time_in(time_ps: int, unit: str) -> str:
    """Exact decimal digits of a time: ``format_time_in(1_500_001, "us") == "1.500001"``."""
    whole, rest = divmod(time_ps, TIME_UNITS[unit])
    places = len(str(TIME_UNITS[unit])) - 1
    return f"{whole}.{str(rest).rjust(places, '0').rstrip('0')}" if rest else str(whole)
