"""Readers and writers of foreign formats.

Flow lists are `flows_*`, size distributions `cdf`, topologies `topology_*`.
"""
