"""The scenario format described: a JSON schema, and the tables of its documentation page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from emunet.scenario.base import Model
from emunet.scenario.fabric import Nic, Transport
from emunet.scenario.faults import Fault, Routing
from emunet.scenario.fields import Leaf
from emunet.scenario.links import LinkChange
from emunet.scenario.record import Packets, Queues, Record, Watermarks
from emunet.scenario.scenario import Scenario
from emunet.scenario.switch import Ecn, Limit, Switch, SwitchGroup, TrafficClass, Watchdog
from emunet.scenario.topology import TOPOLOGIES, Link
from emunet.scenario.workload import ELEMENTS


def json_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a scenario file."""
    schema = Scenario.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "emunet scenario"
    elements = []
    for kind in ELEMENTS:
        body: dict[str, Any] = {"$ref": f"#/$defs/{ELEMENTS[kind].__name__}"}
        if kind == "flows":
            body = {"anyOf": [{"type": "string"}, body]}
        elements.append(
            {
                "type": "object",
                "properties": {kind: body},
                "required": [kind],
                "additionalProperties": False,
            }
        )
    schema["properties"]["workload"]["items"] = {"anyOf": elements}
    for kind in TOPOLOGIES:
        part = schema["$defs"][TOPOLOGIES[kind].__name__]
        part.setdefault("required", []).insert(0, "kind")
        part["properties"]["kind"] = {"const": kind}
    for _, model in sections():
        part = schema if model is Scenario else schema["$defs"][model.__name__]
        _spell_defaults(part["properties"], model)
    for kind in ("Switch", "SwitchGroup"):
        schema["$defs"][kind]["properties"]["ecn"]["anyOf"].append({"const": True})
    schema["$defs"]["Record"]["properties"]["packets"]["anyOf"].append({"type": "boolean"})
    schema["$defs"]["Record"]["properties"]["queues"]["anyOf"].append({"const": False})
    return schema


def _spell_defaults(properties: dict[str, Any], model: type[Model]) -> None:
    """Defaults as they would be written in a file."""
    for key, name in model.file_keys().items():
        info = model.model_fields[name]
        leaf = _leaf(info)
        if leaf and not info.is_required():
            properties[key]["default"] = leaf.spell(info.get_default(call_default_factory=True))


def sections() -> list[tuple[str, type[Model]]]:
    """Every mapping of the format with the path at which it stands, in the order of the page."""
    listed: list[tuple[str, type[Model]]] = [("scenario", Scenario)]
    listed.extend((f"topology, kind: {kind}", TOPOLOGIES[kind]) for kind in TOPOLOGIES)
    listed += [
        ("topology.links[] (explicit)", Link),
        ("switch", Switch),
        ("switch.ecn", Ecn),
        ("switch.pfc_watchdog", Watchdog),
        ("switch.classes.N", TrafficClass),
        ("switch.classes.N.ingress, egress", Limit),
        ("switches[]", SwitchGroup),
        ("links[]", LinkChange),
        ("faults[]", Fault),
        ("routing", Routing),
        ("nic", Nic),
        ("transport", Transport),
    ]
    listed.extend((f"workload[].{kind}", ELEMENTS[kind]) for kind in ELEMENTS)
    listed += [
        ("record", Record),
        ("record.queues", Queues),
        ("record.packets", Packets),
        ("record.watermarks", Watermarks),
    ]
    return listed


def reference() -> str:
    """Markdown tables of every key: default, what is allowed, meaning, source."""
    return "\n".join(line for path, model in sections() for line in _table(path, model))


def _table(path: str, model: type[Model]) -> Iterator[str]:
    yield f"### {path}"
    yield ""
    yield "| key | default | allowed | meaning | source of the default |"
    yield "|---|---|---|---|---|"
    for key, name in model.file_keys().items():
        info = model.model_fields[name]
        if key == "kind":
            continue
        extra = info.json_schema_extra
        source = str(extra.get("x-source", "")) if isinstance(extra, dict) else ""
        cells = (f"`{key}`", _default(info), _allowed(info), info.description or "", source)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if isinstance(value, Model):
        return "see below"
    if value == ():
        return "`[]`"
    leaf = _leaf(info)
    written = leaf.spell(value) if leaf else list(value) if isinstance(value, tuple) else value
    words = {None: "null", True: "true", False: "false"}
    if written == "":
        return "empty"
    text = words[written] if written is None or isinstance(written, bool) else str(written)
    return f"`{text}`"


def _allowed(info: FieldInfo) -> str:
    leaf = _leaf(info)
    return leaf.allowed() if leaf else "see below"


def _leaf(info: FieldInfo) -> Leaf | None:
    return next((m for m in info.metadata if isinstance(m, Leaf)), None)
