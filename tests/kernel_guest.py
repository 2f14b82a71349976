"""Boots a Debian Linux kernel in QEMU, without acceleration or disk, and runs a Python program in it as root.

The initramfs holds the programs of this machine that the guest needs: busybox, iproute2, the interpreter with the
modules that the program imports, and kernel modules. The kernel is the newest in /boot, or the kernel that
`tools/fetch_kernel` put into target/kernel.
"""

import lzma
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

TOOLS = ("busybox", "sh", "ip", "bridge", "dcb", "ss", "sysctl")
"""The list includes `sh`, because the shell of busybox would run its own `ip`."""
MODULES = ("llc", "stp", "garp", "mrp", "bridge", "8021q", "veth", "tcp_dctcp", "inet_diag", "tcp_diag")
"""Kernel modules, in the order in which they can be loaded."""
BOOT = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr norandmaps init_on_alloc=0 lsm= audit=0"
"""Without address randomisation, QEMU translates code once for all processes and not for each: half the time."""
SECONDS, WORK = 240, 90
"""Limits in seconds: wall-clock time with preparation, below a test's limit; CPU time, three times the usual."""
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
for module in /modules/*; do insmod "$module"; done
mkdir /out
PYTHONHOME={prefix} {python} -I -S -B /work/{program} /work /out 2>/out/stderr >&2
echo $? > /out/status
stty -F /dev/ttyS1 raw
tar -cz -C /out . > /dev/ttyS1
reboot -f
"""


def kernels():
    """The installed kernels, the newest first, as (image, folder of its modules)."""
    built = Path(__file__).parents[1] / "target" / "kernel"
    images = [path for root in (built, Path("/")) for path in root.glob("boot/vmlinuz-*")]

    def version(path):
        return [int(number) for number in re.findall(r"\d+", path.name)]

    for image in sorted(images, key=version, reverse=True):
        modules = image.parents[1] / "lib" / "modules" / image.name.removeprefix("vmlinuz-")
        if all(module_file(modules, name) for name in MODULES):
            yield image, modules


def module_file(modules, name):
    """The file of a kernel module, or None."""
    return next((path for end in ("ko", "ko.xz") for path in modules.rglob(f"{name}.{end}")), None)


def unavailable():
    """The reason why no guest can start on this machine, or None."""
    missing = [name for name in ("qemu-system-x86_64", *TOOLS) if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: qemu-system-x86, busybox-static, iproute2, procps)"
    if next(kernels(), None) is None:
        return "no kernel with modules in /boot or target/kernel: run tools/fetch_kernel"
    return None


def boot(work, program, out):
    """Runs `program` of the folder `work` in the guest; files written into its second argument appear in `out`."""
    image, modules = next(kernels())
    root = out / "root"
    _fill(root, work, program, modules)
    names = "\0".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = subprocess.run(
        ["busybox", "cpio", "-o", "-H", "newc", "-0"], cwd=root, input=names.encode(), capture_output=True, check=True
    ).stdout
    (out / "initramfs").write_bytes(archive)
    shutil.rmtree(root)
    command = ["qemu-system-x86_64", "-accel", "tcg,tb-size=256", "-m", "512", "-no-reboot", "-display", "none"]
    command += ["-nic", "none", "-monitor", "none", "-kernel", image, "-initrd", out / "initramfs"]
    command += ["-serial", f"file:{out / 'console'}", "-serial", f"file:{out / 'out.tgz'}"]
    command += ["-append", BOOT]
    before = cpu_of_children()
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        used = cpu_of_children() - before
        assert used < WORK, f"the guest has worked for {used:.0f} s and does not end"
        pytest.skip(f"this machine is too busy: the guest got {used:.0f} s of CPU in {SECONDS} s")
    try:
        with tarfile.open(out / "out.tgz") as found:
            found.extractall(out, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise AssertionError(f"the guest has written nothing: {error}\n{done.stdout[-2000:]}{done.stderr}") from None
    assert (out / "status").read_text().strip() == "0", (out / "stderr").read_text()


def cpu_of_children():
    """CPU time of finished child processes, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _fill(root, work, program, modules):
    shutil.copytree(work, root / "work")
    for folder in ("bin", "proc", "sys", "dev", "run", "tmp", "etc", "var/lib", "modules", "usr/sbin", "usr/bin"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(MODULES):
        file = module_file(modules, name)
        data = lzma.decompress(file.read_bytes()) if file.suffix == ".xz" else file.read_bytes()
        (root / "modules" / f"{number:02}-{name}.ko").write_bytes(data)
    for name in TOOLS:
        _with_libraries(Path(str(shutil.which(name))), root, root / ("bin" if name == "busybox" else "usr/sbin") / name)
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}").resolve()
    _with_libraries(python, root)
    listing = f"import sys; sys.path.insert(0, sys.argv[1]); import {Path(program).stem}\n"
    listing += "for m in list(sys.modules.values()): print(getattr(m, '__file__', None) or '')"
    done = subprocess.run([python, "-I", "-S", "-c", listing, work], capture_output=True, text=True, check=True)
    for file in map(Path, filter(None, done.stdout.splitlines())):
        if work not in file.parents:
            _with_libraries(file, root)
    (root / "init").write_text(INIT.format(prefix=sys.base_prefix, python=python, program=program))
    (root / "init").chmod(0o755)


def _with_libraries(file, root, to=None):
    """Copies a program and its shared libraries to the paths where the program looks for them."""
    to = to or root / file.relative_to("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, to)
    if file.suffix == ".py":
        return
    listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
    for path in re.findall(r"(/\S+) \(0x", listed):
        if not (root / path[1:]).exists():
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), root / path[1:])
