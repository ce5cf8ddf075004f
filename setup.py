"""Native extensions: one set of flags and directives for all; the rest is in pyproject.toml."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from Cython import __version__ as cython_version
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = Path("emunet/_core")

# -ffp-contract=off: native code, Numba and the plain-Python twin must round alike. Neither
# -march=native nor -ffast-math: a build gives the same results on every machine.
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno"]
CHECKED = ["-DEMUNET_CHECKED=1"]

# Set here and not in the sources: directives of a .pyx do not reach the inline functions of the
# .pxd files that it cimports.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "nonecheck": False,
    "embedsignature": False,
    "freethreading_compatible": False,
}

OPENMP_PROBE = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"


def compiler_command() -> list[str]:
    """The C compiler that setuptools will use."""
    return (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()


def openmp_flags() -> list[str]:
    """``-fopenmp`` if a program with it compiles and links; else the engine has one thread."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(OPENMP_PROBE)
        command = [*compiler_command(), "-fopenmp", str(source), "-o", str(Path(folder, "probe"))]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError:
            return []
    return ["-fopenmp"] if done.returncode == 0 else []


def compiler_version() -> str:
    """First line of ``cc --version``."""
    try:
        done = subprocess.run(
            [*compiler_command(), "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return "unknown"
    return done.stdout.splitlines()[0].strip() if done.stdout else "unknown"


def extensions(openmp: list[str]) -> list[Extension]:
    """The engine and its base, the engine with its assertions on, and the test probe, as far as
    they exist.
    """
    headers = sorted(str(p) for p in CORE.glob("*.pxd"))
    found = []
    for name, sources, extra in (
        ("fabric", ["fabric.pyx"], []),
        ("engine", ["engine.pyx"], []),
        ("engine_checked", ["engine_checked.pyx", "engine.pyx"], CHECKED),
        ("probe", ["probe.pyx"], []),
    ):
        if not all((CORE / source).exists() for source in sources):
            continue
        found.append(
            Extension(
                f"emunet._core.{name}",
                [str(CORE / sources[0])],
                depends=[str(CORE / source) for source in sources[1:]] + headers,
                extra_compile_args=FLAGS + extra + openmp,
                extra_link_args=openmp,
                libraries=[] if sys.platform == "win32" else ["m"],
            )
        )
    return found


class BuildExtensions(build_ext):
    """Compiles the extensions side by side and notes how they were built."""

    def run(self) -> None:
        """Build, then write ``emunet/_core/_build.py`` beside the sources and beside the result."""
        self.parallel = self.parallel or os.cpu_count() or 1
        super().run()
        note = CORE / "_build.py"
        note.write_text(build_note())
        if not self.inplace or getattr(self, "editable_mode", False):
            target = Path(self.build_lib) / note
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(note, target)


def build_note() -> str:
    """Text of the generated module that `emunet info` reads."""
    values = {
        "COMPILER": compiler_version(),
        "FLAGS": " ".join(FLAGS + OPENMP),
        "CHECKED_FLAGS": " ".join(CHECKED),
        "OPENMP": bool(OPENMP),
        "CYTHON": cython_version,
        "PYTHON": sysconfig.get_python_version(),
        "PLATFORM": sysconfig.get_platform(),
    }
    lines = ['"""How the extensions were built; written by setup.py."""', ""]
    return "\n".join(lines + [f"{name} = {value!r}" for name, value in values.items()]) + "\n"


OPENMP = openmp_flags()

setup(
    ext_modules=cythonize(
        extensions(OPENMP),
        build_dir="build/cython",
        compiler_directives=DIRECTIVES,
    ),
    cmdclass={"build_ext": BuildExtensions},
)
