"""Published results of other simulators and networks, next to emunet's: docs/validation.md.

`python -m bench.validation` runs all scenarios of this folder and prints the table.
"""
