"""Modules of the user's own that a plug-in imports: found, kept with their content, and imported for it alone.

They are files beside the plug-in or below its folder, or elsewhere on the module path outside of installed packages. A
plug-in gets its private copies, so that neither another plug-in's module of the same name nor an earlier version of the
file counts, and the digest covers what is executed.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib.util
import sys
import sysconfig
import types
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.abc import Loader
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe.files.reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TRUSTED = {"numpy", "numba", "llvmlite", "pauseframe"}
"""Packages whose functions, apart from those in `unseeded`, give the same values in each run."""
PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class OwnFile:
    """A module of the user's own."""

    shipped: str
    """Its path below the folder that other machines import it from, such as "pkg/tables.py"."""
    path: Path
    content: bytes

    @property
    def is_package(self) -> bool:
        """True for the __init__.py of a package."""
        return self.path.stem == "__init__"


class OwnModules:
    """The modules of one plug-in; a finder of `sys.meta_path` while they are in place."""

    def __init__(self, main: Path, content: bytes, shipped: Mapping[str, bytes] | None = None) -> None:
        """`shipped` has the contents of modules by their shipped paths, on a machine that may lack the files."""
        self._folder = main.parent.resolve()
        self._shipped = shipped
        self._found: dict[str, OwnFile | list[str] | None] = {}
        """By name a file, the folders of a package without __init__.py, or None for a module of others."""
        self._loaded: dict[str, types.ModuleType] = {}
        self._active = False
        self.builtins = vars(builtins) | {"__import__": self._import}
        """`__builtins__` of the plug-in: its functions may import modules as they run."""
        self._discover(content, "")

    @property
    def files(self) -> list[OwnFile]:
        """The modules found so far, by their shipped paths."""
        return sorted((one for one in self._found.values() if isinstance(one, OwnFile)), key=lambda one: one.shipped)

    def find(self, name: str) -> OwnFile | list[str] | None:
        """A module by its full name, with what it imports."""
        if name not in self._found:
            self._found[name] = None  # modules may import each other
            self._found[name] = found = self._searched(name)
            if isinstance(found, OwnFile) and found.path.suffix == ".py":
                self._discover(found.content, name if found.is_package else name.rpartition(".")[0])
        return self._found[name]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Makes the modules those that an import statement finds."""
        if self._active:
            yield
            return
        before = self._taken()
        sys.modules.update(self._loaded)
        sys.meta_path.insert(0, self)
        self._active = True
        try:
            yield
        finally:
            self._active = False
            sys.meta_path.remove(self)
            self._loaded = self._taken()
            sys.modules.update(before)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """The interface of `sys.meta_path`."""
        found = self.find(name)
        if found is None:
            return None
        if isinstance(found, list):
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = found
            return spec
        if found.path.suffix != ".py":
            return importlib.util.spec_from_file_location(name, found.path)
        spec = ModuleSpec(name, _Loader(found, self.builtins), origin=str(found.path), is_package=found.is_package)
        spec.has_location = True
        if found.is_package:
            spec.submodule_search_locations = [str(found.path.parent)]
        return spec

    def _taken(self) -> dict[str, types.ModuleType]:
        """Removes the modules of these names from `sys.modules`."""
        tops = {name.partition(".")[0] for name, found in self._found.items() if found is not None}
        return {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in tops}

    def _import(self, name: str, names: Any = None, local: Any = None, members: Any = (), level: int = 0) -> Any:
        if level == 0 and self._found.get(name.partition(".")[0]) is None:
            return builtins.__import__(name, names, local, members, level)
        with self.in_place():
            return builtins.__import__(name, names, local, members, level)

    def _discover(self, content: bytes, package: str) -> None:
        """Finds all modules that a text imports anywhere."""
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError):
            return  # loading it reports the mistake
        for name in _imported(tree, package):
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                if self.find(".".join(parts[:end])) is None:
                    break

    def _searched(self, name: str) -> OwnFile | list[str] | None:
        head = name.rpartition(".")[0]
        outer = self.find(head) if head else None
        if (head and outer is None) or (not head and (name in sys.stdlib_module_names or name in TRUSTED)):
            return None
        if (found := self._of_shipped(name)) is not None:
            return found
        spec = self._spec(name, _folders(outer) if head else None)
        if spec is None or spec.origin is None:
            return [one for one in (spec and spec.submodule_search_locations) or [] if is_own_file(one)] or None
        path, base = Path(spec.origin), Path(*name.split("."))
        if not path.is_file() or not is_own_file(path):
            return None
        folder = base if path.stem == "__init__" else base.parent
        return OwnFile((folder / path.name).as_posix(), path, read_bytes(path))

    def _spec(self, name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
        if folders is not None:
            return PathFinder.find_spec(name, folders)
        if (found := PathFinder.find_spec(name, [str(self._folder)])) is not None and found.origin is not None:
            return found
        others = [one for one in sys.meta_path if one not in (BuiltinImporter, FrozenImporter)]
        others = [one for one in others if not isinstance(one, OwnModules)]
        return next((spec for one in others if (spec := one.find_spec(name, None)) is not None), found)

    def _of_shipped(self, name: str) -> OwnFile | list[str] | None:
        base = name.replace(".", "/")
        for one, content in (self._shipped or {}).items():
            if one in (f"{base}.py", f"{base}/__init__.py"):
                return OwnFile(one, self._folder / one, content)
        inside = any(one.startswith(f"{base}/") for one in self._shipped or {})
        return [str(self._folder / base)] if inside else None


class _Loader(Loader):
    """Executes the content that the digest covers."""

    def __init__(self, file: OwnFile, names: dict[str, Any]) -> None:
        self._file, self._builtins = file, names

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves the making of the module to Python."""

    def exec_module(self, module: types.ModuleType) -> None:
        """The interface of loaders."""
        vars(module)["__builtins__"] = self._builtins
        exec(compile(self._file.content, str(self._file.path), "exec"), vars(module))


def digest_of(content: bytes, others: Mapping[str, bytes]) -> str:
    """The digest of a plug-in and of the modules or libraries of the user's own that it uses."""
    digest = hashlib.sha256(content).hexdigest()
    if not others:
        return digest
    parts = [digest, *(f"{name} {hashlib.sha256(others[name]).hexdigest()}" for name in sorted(others))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def is_own_file(file: str | Path | None) -> bool:
    """True if a file is the user's: neither of Python, nor of an installed package, nor of this one."""
    if file is None or str(file).startswith("<frozen"):
        return False
    path = Path(file)
    if {"site-packages", "dist-packages"} & {*path.parts}:
        return False
    path = path.resolve()
    if path.is_relative_to(PACKAGE):
        return path.is_relative_to(PACKAGE / "examples")
    return not any(path.is_relative_to(one) for one in _python_folders())


@cache
def _python_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(Path(paths[one]).resolve() for one in ("stdlib", "platstdlib", "purelib", "platlib"))


def is_trusted(value: Any) -> bool:
    """True for functions, classes and methods of Python and of packages that give the same values in each run."""
    owner = getattr(value, "__self__", None)
    kind = type(owner) if owner is not None and not isinstance(owner, type | types.ModuleType) else owner
    module = getattr(kind if isinstance(kind, type) else value, "__module__", None) or type(value).__module__
    top = str(module).partition(".")[0]
    return top in TRUSTED or top in sys.stdlib_module_names


def _folders(outer: OwnFile | list[str] | None) -> list[str]:
    """The folders in which modules of a package are searched."""
    if isinstance(outer, OwnFile):
        return [str(outer.path.parent)] if outer.is_package else []
    return outer or []


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """The full names that the import statements of a module may import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            outer = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(filter(None, [*outer, node.module or ""]))
            yield from (f"{base}.{one.name}" if base else one.name for one in node.names)
