"""How a plain Python file becomes a policy: declarations, loading, and native code on demand.

Importing this package does not import Numba; `Policy.addresses` does.
"""

from emunet.plugin.failure import explain_failure
from emunet.plugin.load import Policy, load
from emunet.plugin.params import Param, ParamSet
from emunet.plugin.records import Record, as_record, make_record
from emunet.plugin.registry import available
from emunet.plugin.slots import (
    CANCEL,
    CONGESTION,
    CTX,
    KEEP,
    N_TIMER,
    NACK,
    OUT,
    REORDER,
    SLOTS,
    TIMEOUT,
    Field,
    Slot,
)

__all__ = [
    "CANCEL",
    "CONGESTION",
    "CTX",
    "KEEP",
    "NACK",
    "N_TIMER",
    "OUT",
    "REORDER",
    "SLOTS",
    "TIMEOUT",
    "Field",
    "Param",
    "ParamSet",
    "Policy",
    "Record",
    "Slot",
    "as_record",
    "available",
    "explain_failure",
    "load",
    "make_record",
]
