"""Scenarios: their text, and the same as Python objects (`document`, which takes longer to import)."""
