"""Workloads: one generator a file, merged into one stream of messages in start order."""

from emunet.workload.messages import Context, Element, Messages
from emunet.workload.stream import WorkloadStream, stream

__all__ = ["Context", "Element", "Messages", "WorkloadStream", "stream"]
