"""The scenario file: typed models, loader, schema.

Every error names its path, value, what is allowed and the fix.
"""

from emunet.scenario.fabric import Nic, Transport
from emunet.scenario.faults import Fault, Routing
from emunet.scenario.links import LinkChange
from emunet.scenario.loader import load_scenario, parse_scenario
from emunet.scenario.record import Packets, Queues, Record
from emunet.scenario.scenario import Scenario
from emunet.scenario.schema import json_schema
from emunet.scenario.switch import Ecn, Limit, Switch, SwitchGroup, TrafficClass
from emunet.scenario.topology import (
    Dumbbell,
    Explicit,
    FatTree,
    LeafSpine,
    Link,
    Star,
    TopologyFile,
)
from emunet.scenario.workload import Element, Flows, Incast, Permutation, Poisson

__all__ = [
    "Dumbbell",
    "Ecn",
    "Element",
    "Explicit",
    "FatTree",
    "Fault",
    "Flows",
    "Incast",
    "LeafSpine",
    "Limit",
    "Link",
    "LinkChange",
    "Nic",
    "Packets",
    "Permutation",
    "Poisson",
    "Queues",
    "Record",
    "Routing",
    "Scenario",
    "Star",
    "Switch",
    "SwitchGroup",
    "TopologyFile",
    "TrafficClass",
    "Transport",
    "json_schema",
    "load_scenario",
    "parse_scenario",
]
