"""Speed of emunet: packet-hops per CPU-second, instructions per packet-hop, memory.

See docs/performance.md.
"""
