"""Loads plug-ins (Python files, shared libraries, classes of a notebook). Loading a plug-in runs its code."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import inspect
import shutil
import sys
import tempfile
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe._core import InputError
from pauseframe.files.kinds import refuse_other_kinds
from pauseframe.files.reading import parse_toml, read_bytes
from pauseframe.plugins import abi
from pauseframe.plugins.classes import MARK, Description, registered
from pauseframe.plugins.library import algorithms_of
from pauseframe.plugins.linked import own_libraries
from pauseframe.plugins.modules import OwnModules, digest_of
from pauseframe.plugins.names import parsed
from pauseframe.plugins.source import check_source
from pauseframe.terminal.standard import write_note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOTEBOOK = "notebook"
"""The module name of classes that no file defines."""

_loaded: dict[str, LoadedFile] = {}
"""Loaded plug-ins by digest of their content and name, so that nothing is compiled twice."""
_opened: dict[Path, bytes] = {}
"""Contents of shared libraries when this process first loaded them: it keeps that version."""
_unchecked: dict[str, list[str]] = {}
"""By digest, what the check of a plug-in's source could not follow."""
_alive: list[Any] = []
"""Descriptions and functions that the core uses until the process ends."""


@dataclass(frozen=True)
class LoadedFile:
    """A plug-in file that this process has loaded."""

    path: str
    sha256: str
    """The digest of its content and of `others`."""
    content: bytes
    names: tuple[str, ...]
    """The names of the file's congestion controls in scenarios."""
    others: tuple[tuple[str, bytes], ...] = ()
    """Modules of the user's own that it imports, or libraries that it links: path below its folder, and content."""
    is_file: bool = True
    """False for a class of a notebook, which no other process can load."""


EXITS = 'it ends the program, as sys.exit does: keep what a script does under if __name__ == "__main__"'


def load(plugins: Sequence[str | Path | type], base_dir: str | Path = ".", *, quiet: bool = False) -> list[LoadedFile]:
    """Loads plug-ins that are not loaded yet. Relative paths start at `base_dir`, or at the working folder.

    Raises InputError if a file is not a plug-in, FileNotFoundError if it does not exist, and TypeError if `plugins` is
    no list. Unless `quiet`, a note on
    stderr names those that no time limit ends.
    """
    given: object = plugins
    if isinstance(given, str | Path | type):
        name = given.__name__ if isinstance(given, type) else repr(str(given))
        raise TypeError(f"plugins={name}: give a list, such as plugins=[{name}]")
    before = loaded_files()
    files = [_load_class(one) if isinstance(one, type) else _load_path(Path(one), Path(base_dir)) for one in plugins]
    for file in [] if quiet else dict.fromkeys(files):
        if file not in before:
            for line in _notes_of(file):
                write_note(f"note: {line}")
    return files


def load_shipped(path: Path, content: bytes, others: Mapping[str, bytes]) -> LoadedFile:
    """Loads a plug-in from its content, on a machine that may lack its files."""
    digest = digest_of(content, others)
    if path.suffix == ".py":
        return _load_python(path, content, OwnModules(path, content, others))
    folder = Path(tempfile.mkdtemp(prefix="pauseframe-plugin-"))
    try:
        if path.is_file() and read_bytes(path) == content:
            return _load_library(path, content)
        for name, one in (*others.items(), (path.name, content)):
            (folder / name).write_bytes(one)
        names = _names_in_library(folder / path.name, path, digest, [folder / name for name in others])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _keep(LoadedFile(str(path), digest, content, names, tuple(others.items())))


def _notes_of(file: LoadedFile) -> list[str]:
    notes = _unchecked.get(file.sha256, [])
    if any(name in registered and not registered[name].compile for name in file.names):
        interpreted = (
            f"{file.path} runs in the interpreter (compile=False): a function that does not return is not ended after "
            "10 s; Ctrl-C ends it"
        )
        return [interpreted, *notes]
    return notes


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
    if found.suffix == ".py":
        modules = OwnModules(found, content)
        return _known_python(found, content, modules) or _load_python(found, content, modules, check=True)
    if found.suffix in (".so", ".dylib", ".dll"):
        return _load_library(found, content)
    of_c = found.suffix in (".c", ".cc", ".cpp", ".cxx")
    cure = f"; compile it: cc -O2 -shared -fPIC -I{_include()} {path} -o {path.with_suffix('.so')}" if of_c else ""
    raise InputError(f"{path} is neither a Python file (.py) nor a shared library (.so): it is no plug-in{cure}")


def _known_python(path: Path, content: bytes, modules: OwnModules) -> LoadedFile | None:
    """The plug-in, if this process has loaded it with modules that are unchanged."""
    for one in _loaded.values():
        if Path(one.path).name == path.name and one.content == content and one.is_file:
            for name, _ in one.others:  # an import whose name the text computes is known from the first load
                modules.find(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
            if tuple(_others(modules).items()) == one.others:
                return one
    return None


def _others(modules: OwnModules) -> dict[str, bytes]:
    return {one.shipped: one.content for one in modules.files}


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


def _load_python(path: Path, content: bytes, modules: OwnModules, *, check: bool = False) -> LoadedFile:
    """Runs a plug-in file; `check` follows its source too."""
    name = f"pauseframe_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = modules.builtins
    sys.modules[name] = module
    notes: list[str] = []
    with modules.in_place():
        _execute(path, content, module, modules)
        descriptions = _descriptions(path, content, module)
        for one in descriptions if check else ():
            notes += check_source(one).notes
        others = _others(modules)
        digest = digest_of(content, others)
        text = _source_text(content, others)
        names = tuple(_register(one, path.stem, str(path), digest, text) for one in descriptions)
    _unchecked[digest] = list(dict.fromkeys(notes))
    return _keep(LoadedFile(str(path), digest, content, names, tuple(others.items())))


def _execute(path: Path, content: bytes, module: ModuleType, modules: OwnModules) -> None:
    """Runs the code of a plug-in file, which sees its path as the command line, not the words for pauseframe."""
    words, sys.argv = sys.argv, [str(path)]
    try:
        exec(compile(content, str(path), "exec"), vars(module))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error.__cause__
    except (Exception, SystemExit) as error:
        line = _line_in({str(path), *(str(one.path) for one in modules.files)}, str(path), error)
        why = EXITS if isinstance(error, SystemExit) else str(error)
        raise InputError(f"{path} failed while it was loaded{line}: {type(error).__name__}: {why}") from error
    finally:
        sys.argv = words


def _descriptions(path: Path, content: bytes, module: ModuleType) -> list[Description]:
    """The congestion controls of a plug-in file."""
    _refuse_twins(path, content)
    marked = [value for value in vars(module).values() if isinstance(value, type) and MARK in vars(value)]
    own = list(dict.fromkeys(cls for cls in marked if cls.__module__ == module.__name__))
    if not own:
        raise InputError(
            f"{path} has no class with @pauseframe.congestion_control or @pauseframe.rate_control: it is no plug-in"
        )
    given = [vars(cls)[MARK].name for cls in own]
    if twice := next((one for one in given if given.count(one) > 1), None):
        raise InputError(f'{path}: two classes have the name "{twice}" in their decorators: give each its own')
    return [vars(cls)[MARK] for cls in own]


def _source_text(content: bytes, others: Mapping[str, bytes]) -> str:
    """The text that results keep: of the plug-in, and of the modules of the user's own."""
    files = [(name, one) for name, one in others.items() if name.endswith(".py")]
    added = [f"\n# {name}\n{one.decode('utf-8', 'replace')}" for name, one in files]
    return "".join([content.decode("utf-8", "replace"), *added])


def _line_in(files: set[str], plugin: str, error: BaseException) -> str:
    """The line of the user that raised an exception; "" for a mistake of syntax, which names its own."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    if not frames or isinstance(error, SyntaxError):
        return ""
    file = "" if frames[-1].filename == plugin else f"{frames[-1].filename}, "
    return f" ({file}line {frames[-1].lineno})"


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
    file, text = _source_of(cls, description)
    in_notebook = not file.is_file() or "ipykernel" in str(file)
    reached = check_source(description)
    if in_notebook:
        # Other cells hold what the class uses, so these parts count as well as its text.
        module, content = NOTEBOOK, text.encode()
        others = {name: part.encode() for name, part in reached.parts.items()}
    else:
        module, content = file.stem, file.read_bytes()
        others = _others(OwnModules(file, content))
    digest = digest_of(content, others)
    name = f"{module}:{description.name}"
    if (known := _loaded.get(f"{module}.py {digest}")) is not None and name in known.names:
        return known
    shown = f"{module}.py" if in_notebook else str(file)
    source = content.decode("utf-8", "replace") if in_notebook else _source_text(content, others)
    names = (_register(description, module, shown, digest, source),)
    _unchecked[digest] = reached.notes
    kept = () if in_notebook else tuple(others.items())
    return _keep(LoadedFile(shown, digest, content, names, kept, is_file=not in_notebook))


def _source_of(cls: type, description: Description) -> tuple[Path, str]:
    """The file or cell of a class, and its text. `inspect` finds no classes of notebooks."""
    function = next((one for one in vars(cls).values() if one in description.functions.values()), None)
    if isinstance(function, FunctionType):
        file = function.__code__.co_filename
        tree = parsed(file, function.__globals__)
        classes = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)] if tree is not None else []
        found = [one for one in classes if one.name == cls.__name__]
        if found:
            return Path(file), ast.unparse(found[-1])
    try:
        return Path(inspect.getsourcefile(cls) or ""), inspect.getsource(cls)
    except (OSError, TypeError):
        raise InputError(f"the source text of {cls.__name__} cannot be found: write the class into a file") from None


def _load_library(path: Path, content: bytes) -> LoadedFile:
    known = next((one for one in _loaded.values() if _is_same_library(one, path, content)), None)
    if known is not None:
        return known
    target, folder = path, None
    if _opened.get(path.resolve(), content) != content:  # the loader of the system would give the earlier version
        folder = Path(tempfile.mkdtemp(prefix="pauseframe-plugin-"))
        target = folder / path.name
        target.write_bytes(content)
    try:
        algorithms_of(target)
        others = _linked(target)
        digest = digest_of(content, others)
        names = _names_in_library(target, path, digest)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    _opened.setdefault(path.resolve(), content)
    return _keep(LoadedFile(str(path), digest, content, names, tuple(others.items())))


def _is_same_library(one: LoadedFile, path: Path, content: bytes) -> bool:
    if Path(one.path).name != path.name or one.content != content:
        return False
    return tuple(_linked(path).items()) == one.others


def _linked(path: Path) -> dict[str, bytes]:
    """The libraries of the user's own that a loaded library links, as this process has them."""
    found = {}
    for one in own_libraries(path):
        content = read_bytes(one) if one.is_file() else b""
        if _opened.setdefault(one, content) != content:
            raise InputError(f"{one}, which {path} links, has changed since this process loaded it: start another one")
        found[one.name] = content
    return found


def _names_in_library(target: Path, path: Path, digest: str, before: Sequence[Path] = ()) -> tuple[str, ...]:
    """Registers the algorithms of a library; `path` is the name for messages, `before` are libraries that it links."""
    module = path.stem.removeprefix("lib")
    names = []
    for address in algorithms_of(target, before):
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
    text = _source_text(file.content, dict(file.others))
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
