"""Turns the configuration of a deployed fabric into a scenario under the devices' own names."""

from pauseframe.imports.fabric.scenario import ImportedFabric, import_fabric

__all__ = ["ImportedFabric", "import_fabric"]
