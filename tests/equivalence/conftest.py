"""Puts the twin's random cases and its comparison on the path: `random_plans`, `compare`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "twin"))
