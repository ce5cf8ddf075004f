"""Where compiled hooks are kept between runs.

One folder for each user, one folder in it for each policy text, versions and machine interface. It
holds a generated wrapper file and what Numba stores beside it. Loading runs what lies there, so a
folder that others can write is not used. Several processes may compile the same policy at once:
files appear by renaming, with equal content.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

ENTRIES_KEPT = 64
"""Policy texts kept; those unused for longest go first."""

WRAPPER = "hooks.py"
"""Name of the generated file in an entry."""


def cache_dir() -> Path | None:
    """The user's folder for compiled hooks, or None if there is to be none.

    ``EMUNET_CACHE=0`` switches it off; another value than 1 is the folder to use.
    """
    chosen = os.environ.get("EMUNET_CACHE", "").strip()
    if chosen == "0":
        return None
    if chosen not in ("", "1"):
        return Path(chosen).expanduser() / "emunet-policies"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "emunet" / "policies"


def entry(key: str, text: str) -> Path | None:
    """Wrapper file of an entry, written if need be; None where nothing can or should be kept.

    Parameters
    ----------
    key : str
        Digest of all that decides the compiled code.
    text : str
        The wrapper's text.
    """
    root = cache_dir()
    if root is None:
        return None
    folder = root / key
    file = folder / WRAPPER
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not (_is_ours(root) and _is_ours(folder) and os.access(folder, os.W_OK)):
            return None
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            _write(file, text)
            _forget_oldest(root)
        os.utime(folder)
    except OSError:
        return None
    return file


def discard(file: Path) -> None:
    """Drop the entry of a wrapper file that could not be used."""
    shutil.rmtree(file.parent, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Whether the folder is the user's own and nobody else can write to it."""
    if not hasattr(os, "getuid"):
        return True
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _write(file: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".hooks")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(name, file)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _forget_oldest(root: Path) -> None:
    """Keep the entries used last; another process may be doing the same."""
    entries = []
    for folder in root.iterdir():
        with contextlib.suppress(OSError):
            if (folder / WRAPPER).is_file():
                entries.append((folder.stat().st_mtime, folder))
    for _, folder in sorted(entries, reverse=True)[ENTRIES_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
