"""What a run looks like on a terminal or in a log."""

from emunet.report.console import make_console
from emunet.report.result import print_result
from emunet.report.trace_view import print_head, print_info, print_tables, table_name
from emunet.report.unfinished import unfinished_reasons
from emunet.report.watermarks import print_watermarks

__all__ = [
    "make_console",
    "print_head",
    "print_info",
    "print_result",
    "print_tables",
    "print_watermarks",
    "table_name",
    "unfinished_reasons",
]
