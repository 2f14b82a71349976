"""A common model of a deployed lossless fabric: switches, hosts and links, independent of file formats.

`read_fabric(paths)` reads SONiC and Linux files into a `Fabric`; `pauseframe.lint` checks it, `pauseframe.deploy`
writes files for it, and `pauseframe.imports.fabric` turns it into a scenario.
"""

from __future__ import annotations

from pauseframe.devices.model import Fabric, Host, Link, Switch
from pauseframe.devices.read import DeviceFileError, read_fabric

__all__ = ["DeviceFileError", "Fabric", "Host", "Link", "Switch", "read_fabric"]
