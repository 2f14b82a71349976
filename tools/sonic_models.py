"""Derives python/pauseframe/devices/sonic_models.json from SONiC's YANG models, for each release.

    python tools/sonic_models.py PATH-OF-A-CLONE-OF-sonic-buildimage

Only facts are kept: names of tables, keys and fields, words of enumerations, ranges of numbers, lengths, mandatory
fields, and the tables that a field refers to. No text, pattern or `must` of the models is kept. Needs pyang and jinja2.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RELEASES = ("202311", "202405", "202411", "202505", "202511", "202605", "master")
MODELS = "src/sonic-yang-models"
OUT = Path(__file__).parents[1] / "python/pauseframe/devices/sonic_models.json"
LIMITS = {
    f"{sign}int{bits}": [0, 2**bits - 1] if sign else [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]
    for sign in ("u", "")
    for bits in (8, 16, 32, 64)
}
Limits = dict[str, Any]


def main(clone: str) -> None:
    """Writes the file: the tables of the newest release whole, of each other release what differs from the next one."""
    found = {release: tables_of(clone, commit_of(clone, release)) for release in RELEASES}
    newest = found[RELEASES[-1]]
    releases: dict[str, Any] = {}
    for at, release in enumerate(RELEASES[:-1]):
        newer = found[RELEASES[at + 1]]
        own = found[release]
        differing = {name: own.get(name) for name in sorted({*own, *newer}) if own.get(name) != newer.get(name)}
        releases[release] = {"commit": commit_of(clone, release), "differs": differing}
    releases[RELEASES[-1]] = {"commit": commit_of(clone, RELEASES[-1])}
    about = {
        "source": "sonic-net/sonic-buildimage, src/sonic-yang-models",
        "licence": "Apache-2.0 (LICENSE of the repository and of src/sonic-yang-models; its setup.py says GPL-3.0)",
        "kept": "names, enumerations, ranges, lengths, mandatory fields and references; no text of the models",
    }
    OUT.write_text(json.dumps({"about": about, "releases": releases, "tables": newest}, sort_keys=True) + "\n")
    sizes = ", ".join(f"{release} {len(tables)}" for release, tables in found.items())
    print(f"{OUT.name}: {OUT.stat().st_size} bytes; tables: {sizes}")


def git(clone: str, *words: str) -> bytes:
    """The output of a git command in the clone."""
    return subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True).stdout


def commit_of(clone: str, release: str) -> str:
    """The commit of a release's branch."""
    return git(clone, "rev-parse", "HEAD" if release == "master" else release).decode().strip()


def tables_of(clone: str, commit: str) -> dict[str, Any]:
    """The tables of a commit by name."""
    from pyang import context, repository

    with tempfile.TemporaryDirectory() as folder:
        texts = list(_models(clone, commit, Path(folder)))
        ctx = context.Context(repository.FileRepository(folder, use_env=False))
        modules = [ctx.add_module(name, text) for name, text in texts]
        ctx.validate()
    tables: dict[str, Any] = {}
    for module in modules:
        for top in getattr(module, "i_children", None) or ():
            for container in getattr(top, "i_children", None) or ():
                if re.fullmatch(r"[A-Z][A-Z0-9_]*", container.arg):
                    tables[container.arg] = _table(container)
    return tables


def _models(clone: str, commit: str, folder: Path) -> Any:
    import jinja2

    for part in ("yang-models", "yang-templates"):
        for line in git(clone, "ls-tree", "--name-only", commit, f"{MODELS}/{part}/").decode().splitlines():
            if not line.endswith((".yang", ".yang.j2")):
                continue
            text = git(clone, "show", f"{commit}:{line}").decode()
            if line.endswith(".j2"):
                text = jinja2.Template(text).render(yang_model_type="py")
            name = Path(line).name.removesuffix(".j2")
            (folder / name).write_text(text)
            yield name, text


def _table(container: Any) -> Limits:
    """Rows of a table: keys by number of parts, and fields; a container inside is the row with that name."""
    table: Limits = {"keys": [], "fields": {}}
    rows = [child for child in container.i_children if child.keyword in ("list", "container")]
    for row in rows or [container]:
        keys = row.search_one("key").arg.split() if row.keyword == "list" else []
        leaves = {leaf.arg: leaf for leaf in _leaves(row)}
        inner = [child for child in row.i_children if child.keyword == "list"]
        if inner:  # a map: its inner list has the entries
            table["entries"] = [_limits(leaf) for leaf in _leaves(inner[0])]
        table["keys"].append([_limits(leaves[key]) for key in keys if key in leaves] if keys else [{"enum": [row.arg]}])
        own = {name: _limits(leaf) for name, leaf in leaves.items() if name not in keys}
        for name, limits in own.items():
            known = table["fields"].get(name)
            table["fields"][name] = limits if known in (None, limits) else {}
    return table


def _leaves(node: Any) -> Any:
    for child in node.i_children:
        if child.keyword in ("leaf", "leaf-list"):
            yield child
        elif child.keyword in ("choice", "case"):
            yield from _leaves(child)


def _limits(leaf: Any) -> Limits:
    found = _of_type(leaf.search_one("type"))
    if leaf.keyword == "leaf-list":
        found = {**found, "many": True}
    mandatory, when = leaf.search_one("mandatory"), leaf.search_one("when")
    chosen = leaf.parent.keyword == "case" or when is not None  # only demanded in some rows
    wanted = mandatory is not None and mandatory.arg == "true" and not chosen
    return {**found, "mandatory": True} if wanted else found


def _of_type(kind: Any) -> Limits:
    """Limits of a type; {} if only a pattern or nothing limits it."""
    if kind.arg == "union":
        parts = [_of_type(part) for part in kind.search("type")]
        return {} if {} in parts else {"any": parts}
    if kind.arg == "leafref":
        names = re.findall(r"(?:^|[/:])([A-Z][A-Z0-9_]*)(?=/)", kind.search_one("path").arg)
        names = [name for name in names if not name.endswith("_LIST")]  # a list alone: of the same table
        return {"refers": names[0]} if names else {}
    words = ["true", "false"] if kind.arg == "boolean" else [enum.arg for enum in kind.search("enum")] or _words(kind)
    return {"enum": words} if words else _of_text(kind)


def _of_text(kind: Any) -> Limits:
    """Limits of a number or a text, with those of its typedef."""
    own: Limits = {}
    if (limit := kind.search_one("range")) is not None:
        own["range"] = _spans(limit.arg)
    if (limit := kind.search_one("length")) is not None:
        own["length"] = _spans(limit.arg)
    if kind.arg in LIMITS:
        low, high = LIMITS[kind.arg]
        spans = own.get("range", [[low, high]])
        return {"range": [[low if a is None else a, high if b is None else b] for a, b in spans]}
    typedef = getattr(kind, "i_typedef", None)
    below = _of_type(typedef.search_one("type")) if typedef is not None else {}
    return {**below, **own}


def _words(kind: Any) -> list[str]:
    """The words of a pattern that only lists words: "rs|fc|none|auto"."""
    patterns = [pattern.arg.strip("()") for pattern in kind.search("pattern")]
    listed = len(patterns) == 1 and re.fullmatch(r"[A-Za-z0-9_-]+(\|[A-Za-z0-9_-]+)+", patterns[0])
    return patterns[0].split("|") if listed else []


def _spans(text: str) -> list[list[int | None]]:
    """Ranges such as "0..7 | 9"; None for min and max, and for decimals."""
    spans = []
    for part in text.split("|"):
        low, _, high = part.strip().partition("..")
        numbers = [int(word) if re.fullmatch(r"-?[0-9]+", word.strip()) else None for word in (low, high or low)]
        spans.append(numbers)
    return spans


if __name__ == "__main__":
    main(sys.argv[1])
