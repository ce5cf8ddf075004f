"""The command ``emunet``, and ``python -m emunet``.

Imports little before signals are handled: one that comes earlier meets Python's own handler.
"""

from __future__ import annotations

from collections.abc import Sequence

from emunet.interrupt import AT_ONCE


def main(args: Sequence[str] | None = None) -> None:
    """Entry point: runs the command and exits with its code."""
    AT_ONCE.install()
    from emunet.cli import emunet
    from emunet.cli.failures import call

    code = call(emunet, args)
    AT_ONCE.ignore()
    raise SystemExit(code)


if __name__ == "__main__":
    main()
