"""Puts this folder on the path of every test, so that `support` can be imported."""
