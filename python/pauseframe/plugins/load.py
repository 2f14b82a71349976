"""Loads plug-ins (Python files, shared libraries, classes of a notebook). Loading a plug-in runs its code."""

from __future__ import annotations

import ast
import ctypes
import hashlib
import importlib.util
import inspect
import sys
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe._core import InputError
from pauseframe.files.kinds import refuse_other_kinds
from pauseframe.files.reading import parse_toml, read_bytes
from pauseframe.plugins import abi
from pauseframe.plugins.classes import MARK, Description, registered
from pauseframe.plugins.library import algorithms_of

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTEBOOK = "notebook"
"""The module name of classes that no file defines."""

_loaded: dict[str, LoadedFile] = {}
"""Loaded plug-ins by digest of their content and name, so that nothing is compiled twice."""
_alive: list[Any] = []
"""Descriptions and functions that the core uses until the process ends."""


@dataclass(frozen=True)
class LoadedFile:
    """A plug-in file that this process has loaded."""

    path: str
    sha256: str
    content: bytes
    names: tuple[str, ...]
    """The names of the file's congestion controls in scenarios."""
    is_file: bool = True
    """False for a class of a notebook, which no other process can load."""


def load(plugins: Sequence[str | Path | type], base_dir: str | Path = ".", *, quiet: bool = False) -> list[LoadedFile]:
    """Loads plug-ins that are not loaded yet. Relative paths start at `base_dir`, or at the working folder.

    Raises InputError if a file is not a plug-in, and FileNotFoundError if it does not exist. Unless `quiet`, a note on
    stderr names those that no time limit ends.
    """
    before = loaded_files()
    files = [_load_class(one) if isinstance(one, type) else _load_path(Path(one), Path(base_dir)) for one in plugins]
    for file in [] if quiet else dict.fromkeys(files):
        if file not in before and any(name in registered and not registered[name].compile for name in file.names):
            sys.stderr.write(
                f"note: {file.path} runs in the interpreter (compile=False): a function that does not return is not "
                "ended after 10 s; Ctrl-C ends it\n"
            )
    return files


def files_of(text: str) -> list[str]:
    """`[plugins] files` of a scenario; empty if the text is not TOML, which the core reports later."""
    try:
        table = parse_toml(text).get("plugins", {})
    except ValueError:
        return []
    files = table.get("files", []) if isinstance(table, dict) else []
    return [file for file in files if isinstance(file, str)] if isinstance(files, list) else []


def loaded_files() -> list[LoadedFile]:
    """The plug-ins that this process has loaded, in order."""
    return list(_loaded.values())


def is_loaded(file_name: str, sha256: str) -> bool:
    """True if this process has loaded a file with this name and content."""
    return f"{file_name} {sha256}" in _loaded


def _load_path(path: Path, base_dir: Path) -> LoadedFile:
    found = next((one for one in (path, base_dir / path) if one.is_file()), None)
    refuse_other_kinds(found or path, "a plug-in (.py or .so)", "plug-in")
    if found is None:
        raise FileNotFoundError(f"{path}: there is no such plug-in{_beside(path)}")
    content = read_bytes(found)
    digest = hashlib.sha256(content).hexdigest()
    if (known := _loaded.get(f"{found.name} {digest}")) is not None:
        return known
    if found.suffix == ".py":
        names = _load_python(found, content, digest)
    elif found.suffix in (".so", ".dylib", ".dll"):
        names = _load_library(found, digest)
    else:
        of_c = found.suffix in (".c", ".cc", ".cpp", ".cxx")
        cure = f"; compile it: cc -O2 -shared -fPIC -I{_include()} {path} -o {path.with_suffix('.so')}" if of_c else ""
        raise InputError(f"{path} is neither a Python file (.py) nor a shared library (.so): it is no plug-in{cure}")
    return _keep(LoadedFile(str(path), digest, content, names))


def _include() -> str:
    from pauseframe.plugins import include_dir

    return str(include_dir())


def _keep(file: LoadedFile) -> LoadedFile:
    for key in [key for key, other in _loaded.items() if set(other.names) & set(file.names)]:
        del _loaded[key]  # the loaded plug-in is an older version
    _loaded[f"{Path(file.path).name} {file.sha256}"] = file
    return file


def _beside(path: Path) -> str:
    from pauseframe.terminal.text import nearest

    folder = path.parent
    known = [one.name for one in folder.iterdir() if one.suffix in (".py", ".so")] if folder.is_dir() else []
    meant = nearest(path.name, known, 1)
    return f"; did you mean {folder / meant[0]}?" if meant else ""


def _load_python(path: Path, content: bytes, digest: str) -> tuple[str, ...]:
    name = f"pauseframe_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(content, str(path), "exec"), vars(module))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error.__cause__
    except Exception as error:
        line = _line_in(path, error)
        raise InputError(f"{path} failed while it was loaded{line}: {type(error).__name__}: {error}") from error
    _refuse_twins(path, content)
    marked = [value for value in vars(module).values() if isinstance(value, type) and MARK in vars(value)]
    own = list(dict.fromkeys(cls for cls in marked if cls.__module__ == name))
    if not own:
        raise InputError(
            f"{path} has no class with @pauseframe.congestion_control or @pauseframe.rate_control: it is no plug-in"
        )
    given = [vars(cls)[MARK].name for cls in own]
    if twice := next((one for one in given if given.count(one) > 1), None):
        raise InputError(f'{path}: two classes have the name "{twice}" in their decorators: give each its own')
    text = content.decode("utf-8", "replace")
    return tuple(_register(vars(cls)[MARK], path.stem, str(path), digest, text) for cls in own)


def _line_in(path: Path, error: BaseException) -> str:
    """The line of a plug-in that raised an exception; "" for a mistake of syntax, which names its own."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" (line {lines[-1]})" if lines and not isinstance(error, SyntaxError) else ""


def _refuse_twins(path: Path, content: bytes) -> None:
    """Refuses two decorated classes of one name, of which Python keeps the last."""
    found: dict[str, int] = {}
    for one in ast.parse(content).body:
        if isinstance(one, ast.ClassDef) and one.decorator_list:
            first = found.setdefault(one.name, one.lineno)
            if first != one.lineno:
                raise InputError(
                    f"{path}: the classes in lines {first} and {one.lineno} are both called {one.name}: rename one"
                )


def _load_class(cls: type) -> LoadedFile:
    description = vars(cls).get(MARK)
    if description is None:
        raise InputError(
            f"{cls.__name__} is no plug-in: put @pauseframe.congestion_control or @pauseframe.rate_control above it"
        )
    try:
        file, text = inspect.getsourcefile(cls), inspect.getsource(cls)
    except (OSError, TypeError):
        raise InputError(f"the source text of {cls.__name__} cannot be found: write the class into a file") from None
    path = (
        Path(file)
        if file is not None and Path(file).is_file() and not Path(file).name.startswith("ipykernel")
        else None
    )
    in_notebook = path is None or "ipykernel" in str(path)
    content = text.encode() if in_notebook or path is None else path.read_bytes()
    module = NOTEBOOK if in_notebook or path is None else path.stem
    digest = hashlib.sha256(content).hexdigest()
    name = f"{module}:{description.name}"
    if (known := _loaded.get(f"{module}.py {digest}")) is not None and name in known.names:
        return known
    shown = f"{module}.py" if path is None else str(path)
    return _keep(
        LoadedFile(
            shown,
            digest,
            content,
            (_register(description, module, shown, digest, content.decode("utf-8", "replace")),),
            is_file=not in_notebook,
        )
    )


def _load_library(path: Path, digest: str) -> tuple[str, ...]:
    module = path.stem.removeprefix("lib")
    names = []
    for address in algorithms_of(path):
        try:
            names.append(_core.register_plugin(module, address, file=str(path), sha256=digest))
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    return tuple(names)


def _register(description: Description, module: str, file: str, digest: str, text: str) -> str:
    if description.compile:
        from pauseframe.plugins.compiled import functions_of
    else:
        from pauseframe.plugins.interpreted import functions_of
    functions = functions_of(description)
    raw = _described(description, functions)
    _alive.append((raw, functions))
    try:
        name = _core.register_plugin(
            module,
            abi.address_of(raw),
            file=file,
            sha256=digest,
            text=text,
            interpreted=not description.compile,
        )
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    registered[name] = description
    return name


def interpreted_twin(name: str) -> str | None:
    """The same algorithm in the interpreter, by its name there; None if it is not compiled."""
    description = registered.get(name)
    file = next((one for one in _loaded.values() if name in one.names), None)
    if description is None or file is None or not description.compile:
        return None
    twin = replace(description, name=f"{description.name}_interpreted", compile=False)
    text = file.content.decode("utf-8", "replace")
    return _register(twin, name.partition(":")[0], file.path, file.sha256, text)


def _described(description: Description, functions: dict[str, Any]) -> ctypes.Structure:
    parameters = (abi.Parameter * max(len(description.constants), 1))()
    for parameter, (key, constant) in zip(parameters, description.constants.items(), strict=False):
        parameter.key, parameter.doc = key.encode(), constant.doc.encode()
        parameter.kind, parameter.has_range = constant.kind, constant.low is not None
        field = "number" if constant.kind == abi.NUMBER else "integer"
        for name, value in (("value", constant.value), ("low", constant.low), ("high", constant.high)):
            if value is not None:
                setattr(getattr(parameter, name), field, constant.raw(value))
    raw = abi.ALGORITHMS[description.kind](
        abi=abi.ABI,
        flags=description.flags,
        name=description.name.encode(),
        doc=description.doc.encode(),
        parameters=parameters,
        parameter_count=len(description.constants),
        state_size=description.size,
    )
    _alive.append(parameters)
    for name, function in functions.items():
        setattr(raw, name, _address(function))
    return raw


def _address(function: Any) -> int | None:
    address = getattr(function, "address", None)  # functions compiled by Numba have an address
    return address if address is not None else ctypes.cast(function, ctypes.c_void_p).value
