"""ASTRA-sim's inputs: Chakra traces, system, network and logical topology become a folder with a scenario."""

from pauseframe.imports.astra.scenario import import_astra

__all__ = ["import_astra"]
