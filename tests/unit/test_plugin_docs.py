"""docs/policies.md says what the code does: its tables are complete and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emunet.plugin import CONGESTION, available, load

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.parametrize(
    "field", CONGESTION.ctx_fields + CONGESTION.out_fields, ids=lambda f: f.name
)
def test_every_field_has_its_row(field) -> None:
    """Claim: name, unit and meaning of each field stand in the page as they stand in the code."""
    unit = f" {field.unit} " if field.unit else " "
    assert f"| `{field.name}` |{unit}| {field.meaning} |" in PAGE


@pytest.mark.parametrize("hook", CONGESTION.hooks)
def test_every_hook_has_its_row(hook: str) -> None:
    """Claim: each hook and the moment of its call stand in the page as they stand in the code."""
    assert f"| `{hook}` | {CONGESTION.hooks[hook]} |" in PAGE


@pytest.mark.parametrize("name", available("congestion"))
def test_every_policy_has_its_row(name: str) -> None:
    """Claim: the page lists every policy with its parameter sets."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    assert all(f"`{kind}`" in row for kind in load("congestion", name).sets)


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claim: the policy of the page loads, compiles and, called by hand as the page shows, starts
    with a window of one bandwidth-delay product."""
    monkeypatch.chdir(tmp_path)
    policy_text, by_hand = EXAMPLES
    Path("mine.py").write_text(policy_text, encoding="utf-8")
    policy = load("congestion", "./mine.py", "gentle")
    assert policy.param_values() == {"cut": 0.875, "hold_ps": 10_000_000}
    assert set(policy.addresses()) == {"start", "ack"}
    exec(compile(by_hand, "by_hand.py", "exec"), {})
    assert capsys.readouterr().out == "Record(window=500000.0, cut_ps=0) 500000\n"
