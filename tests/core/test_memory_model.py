"""What the pages and the estimate say of memory is what the engine allocates."""

import importlib
import re
from pathlib import Path

import pytest

from emunet._core import load_engine
from emunet.plan import limits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"


def struct_bytes() -> dict[str, int]:
    """Sizes of the loaded engine's structs."""
    module = importlib.import_module(load_engine().__module__)
    return module.struct_bytes()


@pytest.mark.checked
def test_the_page_states_the_structs():
    """The table of docs/performance.md gives the engine's own struct sizes, by the C compiler."""
    stated = dict(re.findall(r"^\| `(\w+)` +\| +([\d,]+) \|", PAGE.read_text(), re.MULTILINE))
    assert {name: int(size.replace(",", "")) for name, size in stated.items()} == struct_bytes()


def test_the_estimate_follows_the_structs():
    """Each constant of the memory estimate is within its factor 1.5 of the structs it stands for.

    A host has one port, counted apart; a flow also has its place in tables that are at most half
    empty, hence up to twice its 32 bytes of entries on top of the struct sizes.
    """
    size = struct_bytes()
    pairs = {
        "host with its port": (
            limits.HOST_BYTES + limits.HOST_PORT_BYTES,
            size["host"] + size["host_port"],
        ),
        "switch of 64 ports": (
            limits.SWITCH_BYTES + 64 * limits.SWITCH_PORT_BYTES,
            size["switch"] + 64 * size["switch_port"],
        ),
        "flow": (limits.FLOW_BYTES, size["flow"] + 64),
        "packet": (limits.PACKET_BYTES, size["packet_in_queue"]),
    }
    for name, (stated, real) in pairs.items():
        assert real / 1.5 <= stated <= real * 1.5 + 20, (name, stated, real)
