"""The engine again in plain Python: the readable truth with which the native one is compared."""

from emunet.twin.engine import TwinEngine

__all__ = ["TwinEngine"]
