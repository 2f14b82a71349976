"""A SONiC switch as far as ROLLOUT.md uses it: `config`, `docker exec swss swssconfig` and `sonic-db-cli` on files.

Run by the stand-ins that `stand_in` writes: sonic_switch.py FOLDER COMMAND ARGUMENTS. FOLDER holds config.json
(CONFIG_DB), appl.json (APPL_DB), both as tables of text for `sonic-db-cli`, and the checkpoints. `config load` merges
fields into rows, as sonic-cfggen does; `config apply-patch` applies a JSON patch (RFC 6902).
"""

import json
import sys
from pathlib import Path
from typing import Any

READ = """#!/bin/sh
[ "$2" = HGET ] || exit 1
awk -F '\t' -v key="$3" -v field="$4" '$1 == key && $2 == field { print $3; exit }' "FOLDER/$1.tsv"
"""
"""A shell script, because `check.sh` calls it for each value and Python starts slowly."""


def stand_in(folder: Path, config: dict[str, Any], lldp: dict[str, str]) -> Path:
    """A folder for PATH with the commands of a switch that has this configuration and these neighbours."""
    (folder / "bin").mkdir(parents=True)
    write(folder, config, {f"LLDP_ENTRY_TABLE:{port}": {"lldp_rem_sys_name": name} for port, name in lldp.items()})
    for name in ("config", "docker"):
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{folder}" {name} "$@"\n')
    (folder / "bin" / "sonic-db-cli").write_text(READ.replace("FOLDER", str(folder)))
    for script in (folder / "bin").iterdir():
        script.chmod(0o755)
    return folder / "bin"


def state(folder: Path) -> list[dict[str, Any]]:
    """CONFIG_DB and APPL_DB."""
    return [json.loads((folder / name).read_text()) for name in ("config.json", "appl.json")]


def write(folder: Path, config: dict[str, Any], appl: dict[str, Any]) -> None:
    """Replaces both databases."""
    rows = {f"{table}|{key}": row for table, of_table in config.items() for key, row in of_table.items()}
    for name, database, flat in (("config", config, rows), ("appl", appl, appl)):
        (folder / f"{name}.json").write_text(json.dumps(database))
        lines = [f"{key}\t{field}\t{value}\n" for key, row in flat.items() for field, value in row.items()]
        (folder / f"{name.upper()}_DB.tsv").write_text("".join(lines))


def config(folder, words):
    now, appl = state(folder)
    match words:
        case ["checkpoint", name]:
            (folder / f"{name}.checkpoint").write_text(json.dumps(now))
        case ["rollback", name]:
            now = json.loads((folder / f"{name}.checkpoint").read_text())
        case ["load", "-y", file]:
            for table, rows in json.loads(Path(file).read_text()).items():
                for key, row in rows.items():
                    now.setdefault(table, {}).setdefault(key, {}).update(row)
        case ["apply-patch", file]:
            now = patched(now, json.loads(Path(file).read_text()))
        case _:
            raise SystemExit(f"config: {words}")
    write(folder, now, appl)


def patched(document, steps):
    """The document after a JSON patch; KeyError for a path that is not there."""
    for step in steps:
        *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:])
        at = document
        for part in parents:
            at = at[part]
        if step["op"] == "remove":
            del at[last]
        else:
            if step["op"] == "replace" and last not in at:
                raise KeyError(step["path"])
            at[last] = step["value"]
    return document


def docker(folder, words):
    match words:
        case ["cp", file, target] if target.startswith("swss:/"):
            (folder / target.removeprefix("swss:/")).write_text(Path(file).read_text())
        case ["exec", "swss", "swssconfig", file]:
            now, appl = state(folder)
            for item in json.loads((folder / file.lstrip("/")).read_text()):
                ((key, row),) = [(key, row) for key, row in item.items() if key != "OP"]
                if item["OP"] == "DEL":
                    del appl[key]
                else:
                    appl.setdefault(key, {}).update(row)
            write(folder, now, appl)
        case _:
            raise SystemExit(f"docker: {words}")


if __name__ == "__main__":
    {"config": config, "docker": docker}[sys.argv[2]](Path(sys.argv[1]), sys.argv[3:])
