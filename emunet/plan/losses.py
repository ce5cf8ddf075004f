"""What links lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from emunet.plan.schema import NO_LIMIT
from emunet.topology.changes import both_ways
from emunet.topology.core import Topology


def loss_arrays(topology: Topology, links: Sequence[Any]) -> dict[str, np.ndarray]:
    """Losses of every port's outgoing link; the last entry of `links` that loses frames counts.

    Parameters
    ----------
    topology : Topology
    links : sequence of emunet.scenario.LinkChange
    """
    n = topology.n_port
    arrays = {
        "port_loss_start_ps": np.zeros(n, np.int64),
        "port_loss_end_ps": np.zeros(n, np.int64),
        "port_loss": np.zeros((n, 2)),
        "port_loss_change": np.zeros((n, 2)),
        "port_bit_error": np.zeros(n),
    }
    for link in links:
        if not link.loses:
            continue
        ports = both_ways(topology, link)
        bursts = link.burst is not None
        arrays["port_loss_start_ps"][ports] = link.start
        arrays["port_loss_end_ps"][ports] = NO_LIMIT if link.end is None else link.end
        arrays["port_loss"][ports] = (0.0, link.bad_loss) if bursts else (link.loss, 0.0)
        arrays["port_loss_change"][ports] = (link.to_bad, 1.0 / link.burst) if bursts else 0.0
        arrays["port_bit_error"][ports] = link.bit_errors
    return arrays
