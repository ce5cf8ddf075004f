"""What a run says in numbers, from its trace file alone or, without a file, from memory."""

from emunet.analysis.run import Run, load
from emunet.analysis.summary import summary
from emunet.analysis.watermarks import watermarks

__all__ = ["Run", "load", "summary", "watermarks"]
