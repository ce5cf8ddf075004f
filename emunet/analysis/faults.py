"""The faults of a run, as its plan has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emunet.plan.schema import CHANGE_RATE, CHANGE_ROUTE, NO_LIMIT

if TYPE_CHECKING:
    import pandas as pd

    from emunet.trace.tables import Tables

KINDS = ("link down", "link up", "routes", "known up", "known down", "rate")
"""`what` of a row; the last four are what the node does, the first two what happens to its link."""


def faults(run: Tables) -> pd.DataFrame:
    """When links go down and up, and when which node knows, by time.

    Parameters
    ----------
    run : Tables

    Returns
    -------
    pandas.DataFrame
        `time_ps`; `what`, one of `KINDS`; `node`; `port`, such as ``leaf0:3`` (its outgoing link;
        empty for routes); `rate_bps`, from then on (0 but for rates).
    """
    import pandas as pd

    plan = run.plan
    port = np.repeat(np.arange(plan.n_port), np.diff(plan.port_down_start))
    ends = plan.down_until_ps < NO_LIMIT
    node = np.repeat(np.arange(plan.n_node), np.diff(plan.node_change_start))
    changes = plan.node_port_start[node] + plan.change_port
    kind = plan.change_kind.astype(np.int64)
    at = np.concatenate((plan.down_from_ps, plan.down_until_ps[ends], plan.change_ps))
    what = np.concatenate((np.zeros(len(port)), np.ones(ends.sum()), 2 + kind)).astype(np.int64)
    place = np.concatenate((port, port[ends], np.where(kind == CHANGE_ROUTE, -1, changes)))
    owner = np.concatenate((plan.port_node[port], plan.port_node[port[ends]], node))
    rate = np.concatenate(
        (np.zeros(len(port) + ends.sum()), np.where(kind == CHANGE_RATE, plan.change_value, 0))
    )
    order = np.lexsort((place, owner, what, at))
    return pd.DataFrame(
        {
            "time_ps": at[order],
            "what": pd.Categorical.from_codes(what[order], list(KINDS)),
            "node": [plan.names[n] for n in owner[order]],
            "port": ["" if p < 0 else run.port_name(int(p)) for p in place[order]],
            "rate_bps": rate[order].astype(np.int64),
        }
    )
