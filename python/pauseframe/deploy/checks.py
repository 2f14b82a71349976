"""`check.sh` of a SONiC switch: is it the planned device, with the planned ports and neighbours? It changes nothing."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pauseframe.deploy.sonic import Tables

_HEAD = """#!/bin/sh
# Written by `pauseframe deploy`. Run it on the switch before its step of ROLLOUT.md; it changes nothing.
# Exit code 0: the switch is as expected.
set -u
faults=0
wrong() {{
  echo "check.sh: $*" >&2
  faults=1
}}

# config TABLE ROW FIELD, lldp PORT FIELD: what the switch has.
config() {{ sonic-db-cli CONFIG_DB HGET "$1|$2" "$3"; }}
lldp() {{ sonic-db-cli APPL_DB HGET "LLDP_ENTRY_TABLE:$1" "$2"; }}

# port NAME LANES SPEED NEIGHBOUR
port() {{
  lanes=$(config PORT "$1" lanes)
  if [ -z "$lanes" ]; then
    wrong "no port $1"
    return
  fi
  [ "$lanes" = "$2" ] || wrong "port $1 has lanes $lanes, not $2"
  far=$(lldp "$1" lldp_rem_sys_name)
  if [ -n "$far" ] && [ "${{far%%.*}}" != "${{4%%.*}}" ]; then wrong "port $1 leads to $far, not to $4"; fi
  speed=$(config PORT "$1" speed)
  [ "$speed" = "$3" ] || echo "check.sh: port $1 changes its speed from $speed to $3" >&2
}}

# was TABLE ROW FIELD VALUE: the value that the patch expects; "" if the row is new.
was() {{
  now=$(config "$1" "$2" "$3")
  [ "$now" = "$4" ] || wrong "$1|$2 has $3 '$now', not '$4': collect the configuration and deploy again"
}}

# vlan NAME DESCRIPTION: a VLAN of this number must be new, or that of this plan.
vlan() {{
  [ -z "$(config VLAN "$1" vlanid)" ] || [ "$(config VLAN "$1" description)" = "$2" ] ||
    wrong "$1 is another VLAN: plan again with --first-vlan"
}}

name=$(config DEVICE_METADATA localhost hostname)
[ "$name" = {name} ] || wrong "this switch is $name, not" {name}
"""


def check_script(tables: Tables, switch: str, expected: Iterable[tuple[str, str, str, str]] = ()) -> str:
    """The script for a switch whose config_db.json has these tables; `expected` are values that a patch replaces."""
    lines = [_HEAD.format(name=quote(switch))]
    for port, row in tables["PORT"].items():
        far = tables["DEVICE_NEIGHBOR"].get(port, {}).get("name", "")
        lines.append(f"port {quote(port)} {quote(row['lanes'])} {row['speed']} {quote(far)}\n")
    lines += [f"was {' '.join(map(quote, one))}\n" for one in expected]
    for vlan, row in tables.get("VLAN", {}).items():
        lines.append(f"vlan {vlan} {quote(row['description'])}\n")
    return "".join([*lines, 'exit "$faults"\n'])
