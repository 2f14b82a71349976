"""Reads minigraphs of SONiC: one switch with its ports, channels and mux cables, its cables, and the kinds of devices.

A minigraph describes one switch and names the devices at its ports. Source: sonic-buildimage,
src/sonic-config-engine/minigraph.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pauseframe.devices.bundles import Channel, Hashing, MuxCable, seed_of_role
from pauseframe.devices.files import DeviceFileError, number_in, shown
from pauseframe.devices.model import Port, Switch
from pauseframe.devices.wiring import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element


@dataclass
class Minigraph:
    """The content of a minigraph."""

    wires: list[Wire] = field(default_factory=list)
    switch: Switch | None = None
    """The switch that the minigraph is of; None if it has no Hostname."""
    roles: dict[str, Literal["switch", "host"]] = field(default_factory=dict)
    """The kind of each device that the minigraph names."""


def read(text: str, source: str) -> Minigraph:
    """Reads the text of a minigraph. Raises DeviceFileError for XML that is broken, or has entities."""
    root = _parsed(text, source)
    found = Minigraph(list(_wires(root, source)))
    for device in _all(root, "Device"):
        kind, name = _attribute(device, "type"), _child(device, "Hostname")
        if name and kind and kind != "SmartCable":
            found.roles[name] = role_of(kind)
    name = _child(root, "Hostname")
    if name:
        found.switch = _switch(root, name, source)
    return found


def role_of(kind: str) -> Literal["switch", "host"]:
    """What a device of a type does; SONiC's types of devices that forward contain Router, ToR or Spine."""
    return "switch" if any(word in kind for word in ("Router", "ToR", "Spine", "RegionalHub", "EPMS")) else "host"


def _parsed(text: str, source: str) -> Element:
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        root: Element = fromstring(text, forbid_dtd=True)
    except DefusedXmlException as error:
        name = type(error).__name__
        raise DeviceFileError(f"{shown(source)}: {name}: a minigraph has no DTD and no entities: not read") from None
    except (ParseError, ValueError) as error:
        raise DeviceFileError(f"{shown(source)}: this is not XML: {error}") from None
    return root


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _all(root: Element, tag: str) -> Iterator[Element]:
    return (element for element in root.iter() if _tag(element) == tag)


def _child(element: Element, tag: str) -> str:
    return next(((child.text or "").strip() for child in element if _tag(child) == tag), "")


def _attribute(element: Element, name: str) -> str:
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def _wires(root: Element, source: str) -> Iterator[Wire]:
    """The cables; a logical link names a mux beside its cable."""
    for link in _all(root, "DeviceLinkBase"):
        start, end = ((_child(link, f"{side}Device"), _child(link, f"{side}Port")) for side in ("Start", "End"))
        if all((*start, *end)) and _child(link, "ElementType") != "LogicalLink":
            yield Wire(*start, *end, source)


def _switch(root: Element, name: str, source: str) -> Switch:
    switch = Switch(name, source, "minigraph", hwsku=_child(root, "HwSku"), whole=False)
    types = {_child(device, "Hostname"): _attribute(device, "type") for device in _all(root, "Device")}
    switch.role = types.get(name, "")
    seed, offset = seed_of_role(switch.role)
    switch.hashing = Hashing(seed=seed, offset=offset, known=bool(switch.role))
    for row in _all(root, "EthernetInterface"):
        port = _child(row, "InterfaceName")
        if port:
            switch.ports[port] = Port(port, speed=number_in(_child(row, "Speed"), 1, 1_600_000))
    for row in _all(root, "PortChannel"):
        members = [one for one in _child(row, "AttachTo").split(";") if one]
        if _child(row, "Name"):
            least = number_in(_child(row, "MinLinks"), 1, 1024)
            switch.channels[_child(row, "Name")] = Channel(_child(row, "Name"), members, min_links=least)
    for link in _all(root, "DeviceLinkBase"):
        if _child(link, "ElementType") == "LogicalLink":
            port = _child(link, "StartPort" if _child(link, "StartDevice") == name else "EndPort")
            switch.mux[port] = MuxCable(port)
    towers = {_child(row, "Name"): _child(row, "Value") for row in _all(root, "DeviceProperty")}
    pair = [towers.get(key, "") for key in ("UpperTOR", "LowerTOR")]
    if switch.mux and name in pair:
        switch.peer_switch = next((one for one in pair if one != name), "")
    return switch
