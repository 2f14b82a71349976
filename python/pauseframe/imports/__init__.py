"""Scenarios from the input files of other simulators."""
