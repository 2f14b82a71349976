"""The Linux kernel for hosts with `stack = "kernel"`: built from Debian's source package and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable

VERSIONS = ("6.12", "6.1")
"""Kernels that are known to work, the default first."""
HZ = (100, 250, 300, 1000)
TOOLS = ("gcc", "make", "flex", "bison", "bc", "ip", "tc")
NEEDED = ("UML_TIME_TRAVEL_SUPPORT", "VIRTIO_UML", "VIRTIO_NET", "TCP_CONG_DCTCP", "NET_SCH_FQ", "BQL")
"""Options without which a kernel is of no use here."""
PARTS = ("linux", "agent", "shim.so")
"""What a folder of a kernel has."""
_IN_IMAGE = (b"Linux version ", b"time-travel-timer")
"""What every image of a user-mode kernel with time travel has: the banner, and the name of its clock."""
_SOURCE = Path("/usr/src")
_LINES_OF_LOG = 15


def cache() -> Path:
    """The folder of all kernels: `~/.cache/pauseframe/kernel`, or the one below `XDG_CACHE_HOME`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pauseframe" / "kernel"


def obstacle() -> str | None:
    """Why no kernel can run on this computer, in one line; None if one can."""
    if sys.platform != "linux":
        return f"hosts with a kernel need Linux, and this is {platform.system()}"
    if platform.machine() != "x86_64":
        return f"hosts with a kernel need an x86-64 processor, and this is {platform.machine()}"
    return None if _can_trace() else "hosts with a kernel need ptrace, which this system does not allow"


def _can_trace() -> bool:
    """Whether a process may trace its child, as the kernel traces its programs."""
    import ctypes

    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        os._exit(0 if libc.ptrace(0, 0, None, None) == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def find(kernel: str | Path | None = None) -> Path:
    """The folder of a built kernel: a version of it, the folder itself, or None for the default.

    The default is the first of `VERSIONS` if it is built, else the kernel that was built last.

    Raises InputError with what to do if there is none or it cannot run here.
    """
    if (why := obstacle()) is not None:
        raise InputError(why)
    if kernel is not None and str(kernel) not in VERSIONS:
        if not _is_complete(Path(kernel)):
            known = ", ".join(VERSIONS)
            raise InputError(f"{kernel} is neither a version ({known}) nor a folder of pauseframe kernel build")
        return _of_this_version(Path(kernel))
    built = [path for path in cache().glob("[!.]*") if _is_complete(path)]
    wanted = [path for path in built if path.name.split("-")[0] == str(kernel or VERSIONS[0])]
    built = wanted if kernel is not None else wanted or built
    if not built:
        raise InputError(
            "no kernel is built: run pauseframe kernel build"
            if kernel is None
            else f"kernel {kernel} is not built: run pauseframe kernel build --version {kernel}"
        )
    return _of_this_version(max(built, key=lambda path: (path.stat().st_mtime, path.name)))


def _of_this_version(folder: Path) -> Path:
    if _is_stale(folder):
        raise InputError(f"{folder} was built by another version of pauseframe: run pauseframe kernel build again")
    return folder


def _is_complete(folder: Path) -> bool:
    return all((folder / part).is_file() for part in PARTS)


def build(
    version: str = VERSIONS[0],
    *,
    hz: int = 1000,
    kernel: Path | None = None,
    source: Path | None = None,
    config: Path | None = None,
    jobs: int | None = None,
    force: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Builds a user-mode kernel with its agent and returns their folder; a few minutes, once.

    `kernel` is a user-mode kernel of your own, which is taken as it is. `source` is a folder with the source of Linux,
    which is copied, and `config` a file of options that are added to ours. `hz` is the frequency of the kernel's timer.
    `kernel.json` in the folder has the digests of source and configuration, which go into the manifest of each run.
    """
    say = tell or (lambda _: None)
    if (why := obstacle()) is not None:
        raise InputError(why)
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        packages = " ".join(_packages(missing))
        raise InputError(f"missing tools: {', '.join(missing)}. On Debian: apt-get install {packages}")
    recipe = _recipe(version, hz, kernel, source, config)
    folder = cache() / str(recipe.pop("folder"))
    is_built = _is_complete(folder)
    if is_built and not force and not _is_stale(folder):
        say(f"{folder} is built already")
        return folder
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".build-") as scratch:
        ready = Path(scratch) / "ready"
        ready.mkdir()
        if kernel is not None:
            shutil.copy2(kernel, ready / "linux")
        elif is_built and not force and not _has_other_options(folder):
            shutil.copy2(folder / "linux", ready / "linux")
        else:
            unpacked = _copied(source, Path(scratch), say) if source else _unpack(Path(scratch), version, say)
            options = _fragment(config)
            _build_linux(unpacked, ready / "linux", options, hz, jobs or os.cpu_count() or 1, say)
        _build_agent(ready)
        (ready / "kernel.json").write_text(json.dumps(recipe, indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        ready.rename(folder)
    say(f"built {folder}")
    return folder


def _packages(tools: list[str]) -> list[str]:
    package = {"ip": "iproute2", "tc": "iproute2"}
    return sorted({package.get(tool, tool) for tool in tools})


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _is_stale(folder: Path) -> bool:
    """Whether the agent was built from other sources than these, or the kernel with other options."""
    mark = folder / "sources"
    return not mark.is_file() or mark.read_text() != _sources() or _has_other_options(folder)


def _has_other_options(folder: Path) -> bool:
    """Whether a kernel that was built without `--config` has other options than ours."""
    file = folder / "kernel.json"
    recipe = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"version": "own"}
    is_plain = folder.name == f"{recipe['version']}-hz{recipe.get('hz')}"
    return is_plain and recipe["config"] != hashlib.sha256(_own_options().encode()).hexdigest()


def _sources() -> str:
    parts = [*sorted(_agent().iterdir(), key=lambda part: part.name), files("pauseframe.kernel") / "shim.c"]
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts if part.name.endswith((".c", ".h")))).hexdigest()


def _agent() -> Traversable:
    return files("pauseframe.kernel") / "agent"


def _build_agent(ready: Path) -> None:
    for source, output, options in (
        (_agent(), "agent", ("-O2", "-static", "-pthread")),
        (files("pauseframe.kernel") / "shim.c", "shim.so", ("-O2", "-shared", "-fPIC")),
    ):
        with as_file(source) as path:
            sources = sorted(path.glob("*.c")) if path.is_dir() else [path]
            _run(["gcc", *options, "-o", str(ready / output), *map(str, sources)], ready)
    (ready / "sources").write_text(_sources())


def _recipe(version: str, hz: int, kernel: Path | None, source: Path | None, config: Path | None) -> dict[str, Any]:
    """What a kernel is built from, and the name of its folder."""
    if kernel is not None:
        digest = _digest(kernel)
        if missing := [text for text in _IN_IMAGE if text not in kernel.read_bytes()]:
            raise InputError(
                f"{kernel} is no user-mode kernel with time travel, as it lacks {missing[0].decode()!r}: give the file "
                "linux of make ARCH=um with CONFIG_UML_TIME_TRAVEL_SUPPORT=y, or leave out --kernel to build one"
            )
        return {"folder": f"own-{digest[:12]}", "version": "own", "image": digest}
    if source is not None:
        version = _version_of(source)
    options = _own_options() + _fragment(config)
    recipe = {
        "version": version,
        "hz": hz,
        "source": _digest_of_tree(source) if source else f"linux-source-{version}",
        "config": hashlib.sha256(options.encode()).hexdigest(),
    }
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    plain = source is None and config is None
    folder = f"{version}-hz{hz}" if plain else f"{version}-hz{hz}-{digest[:12]}"
    return {"folder": folder, **recipe, "digest": digest}


def _own_options() -> str:
    return (files("pauseframe.kernel") / "um.config").read_text(encoding="utf-8")


def _fragment(config: Path | None) -> str:
    """Options of a file, in the form of a kernel's `.config`."""
    if config is None:
        return ""
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {config}: {error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#") and not re.fullmatch(r"CONFIG_\w+=\S.*", line.strip()):
            raise InputError(f"{config}, line {number}: {line.strip()!r} is no option such as CONFIG_TCP_CONG_BBR=y")
    return text if text.endswith("\n") else text + "\n"


def _version_of(source: Path) -> str:
    """The version that the Makefile of a source of Linux declares."""
    makefile = source / "Makefile"
    text = makefile.read_text(encoding="utf-8", errors="replace") if makefile.is_file() else ""
    found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", text, re.MULTILINE))
    if len(found) < len(("VERSION", "PATCHLEVEL", "SUBLEVEL")) or not (source / "arch/um/Kconfig").is_file():
        raise InputError(f"{source} is no source of Linux: it needs the kernel's Makefile and arch/um")
    return ".".join(found[part] for part in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))


def _digest_of_tree(source: Path) -> str:
    """Digest of all files below a folder, without its repository."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            path = Path(folder) / name
            if not path.is_symlink():
                digest.update(f"{path.relative_to(source)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _copied(source: Path, scratch: Path, say: Callable[[str], None]) -> Path:
    """A copy of a source, because the build edits two constants; without what an earlier build has left."""
    say(f"copying {source}")
    copy = scratch / "source"
    shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    _run(["make", "-s", "ARCH=um", "mrproper"], copy)
    return copy


def _build_linux(source: Path, output: Path, fragment: str, hz: int, jobs: int, say: Callable[[str], None]) -> None:
    _set_clock(source, hz)
    config = source.parent / "um.config"
    config.write_text(_own_options() + fragment, encoding="utf-8")
    make = ["make", "-s", "ARCH=um", f"-j{jobs}"]
    _run([*make, f"KCONFIG_ALLCONFIG={config}", "allnoconfig"], source)
    lines = (source / ".config").read_text().splitlines()
    if missing := [option for option in NEEDED if f"CONFIG_{option}=y" not in lines]:
        raise InputError(f"this source has no {', '.join(missing)} for user-mode kernels")
    wanted = [line.strip() for line in fragment.splitlines() if line.strip() and not line.startswith("#")]
    if refused := [line for line in wanted if line not in lines and not line.endswith("=n")]:
        raise InputError(f"this source did not take {', '.join(refused)}: an option that it depends on is off")
    say(f"compiling Linux {_version_of(source)} (about six minutes of processor time)")
    _run([*make, "linux"], source)
    shutil.copy2(source / "linux", output)


def _unpack(scratch: Path, version: str, say: Callable[[str], None]) -> Path:
    package = f"linux-source-{version}"
    archive = _SOURCE / f"{package}.tar.xz"
    if not archive.is_file():
        say(f"fetching {package}")
        fetched = scratch / "package"
        fetched.mkdir()
        if shutil.which("apt-get") is None:
            raise InputError(f"{archive} is missing, and there is no apt-get to fetch {package} with")
        _run(["apt-get", "download", package], fetched)
        [deb] = fetched.glob("*.deb")
        _run(["dpkg-deb", "-x", str(deb), "."], fetched)
        archive = fetched / archive.relative_to("/")
    say(f"unpacking {archive.name}")
    with tarfile.open(archive) as tar:
        tar.extractall(scratch, filter="tar")
    return scratch / package


def _set_clock(source: Path, hz: int) -> None:
    """Constants of user-mode kernels that have no option: the timer's frequency, and the resolution of the clock."""
    _edit(source / "arch/um/Kconfig", r"(config HZ\n(?:.*\n)*?\tdefault )100\n", rf"\g<1>{hz}\n")
    header = source / "arch/um/include/linux/time-internal.h"
    _edit(header, r"(#define TIMER_MULTIPLIER\s+)\d+", r"\g<1>1")
    _edit(header, r"(#define TIMER_MIN_DELTA\s+)\d+", r"\g<1>1")


def _edit(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(), count=1)
    if count != 1:
        raise InputError(f"{path.name} of this source is unlike that of the versions that are known to work")
    path.write_text(text)


def _run(command: list[str], folder: Path) -> None:
    """Runs a tool; what it says is shown if it fails."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-_LINES_OF_LOG:])
        raise InputError(f"{command[0]} failed:\n{last}")
