"""The commands of ROLLOUT.md, by what a device runs: how it is checked, changed and taken back."""

from __future__ import annotations

from dataclasses import dataclass

CHECKPOINT = "before-pauseframe"


@dataclass(frozen=True)
class Commands:
    """Commands of a kind of device, run as root in a copy of its folder."""

    check: tuple[str, ...]
    apply: tuple[str, ...]
    back: tuple[str, ...]


def of_sonic(
    *configs: str, patched: bool = False, loaded: tuple[str, ...] = (), undo: tuple[str, ...] = ()
) -> Commands:
    """A SONiC switch: files for `config load`, or a patch in their place; files for `swssconfig` with their undo.

    `config rollback` restores CONFIG_DB alone, so what swssconfig loads needs files that take it back.
    """
    loads = ("config apply-patch patch.json",) if patched else tuple(f"config load -y {name}" for name in configs)
    before = (f"config checkpoint {CHECKPOINT}", *loads)
    return Commands(
        ("sh check.sh",),
        (*before, *(line for name in loaded for line in _swssconfig(name))),
        (*(line for name in undo for line in _swssconfig(name)), f"config rollback {CHECKPOINT}"),
    )


def _swssconfig(name: str) -> tuple[str, str]:
    return f"docker cp {name} swss:/{name}", f"docker exec swss swssconfig /{name}"


LINUX = Commands(("sh setup.sh --check",), ("sh setup.sh",), ("sh setup.sh --undo",))
"""A host, or a Linux switch."""
RECEIVE = Commands(("sh setup.sh --check",), ("sh setup.sh --receive",), ("sh setup.sh --undo",))
"""A host of a plan that only receives in the new VLANs."""


def section(title: str, about: str, own: Commands) -> list[str]:
    """Lines of ROLLOUT.md about a kind of step."""
    lines = [f"## {title}", "", about, ""]
    for name, commands in (("Check", own.check), ("Then", own.apply), ("Back", own.back)):
        lines += [f"{name}:", "", *(f"    {command}" for command in commands), ""]
    return lines
