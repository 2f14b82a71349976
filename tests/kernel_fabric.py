"""Runs as root in a guest (kernel_guest.py): builds a fabric of Linux bridges and hosts, and records its frames.

Arguments: a folder with `about.json`, `collect.sh` and the deployment `out`; a folder for the results.

`about.json` holds `links` [[device, port, device, port]], `devices` {name: folder in `out`}, `switches`, `order` and
`commands` of ROLLOUT.md ([[kind, names]], {kind: {part: lines}}),
`addresses` {VLAN: {host: address}}, `macs` {host: [nic, address]}, `keys` (sysctls), `pairs`
[[VLAN, from, to]]. Every device is a network namespace with its own /var/lib. The script writes `before`, `done`,
`again`, `undone` (states by device), `ways` ([device, port, VLAN, priority, ECN field, source, target] of every TCP
frame that left a port of a switch or arrived at a host), `reads` (output of a host's ip and ss), and the folders of
collect.sh. `routed` (nic, mac, addresses, keys, folder in `scenario`) is a host of a deployed scenario; its states have
the same names.
"""

import ctypes
import encodings.idna  # noqa: F401 - sockets look for it
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA, OUTGOING, PORT = 3, 263, 8, 4, 5000
CARRIER = ("LOWER_UP", "NO-CARRIER")
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x20000, 0x4000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
LIBC = ctypes.CDLL(None, use_errno=True)


def system(name, *arguments):
    """Calls a function of the C library, because `os.unshare` needs Python 3.12."""
    if getattr(LIBC, name)(*arguments):
        raise OSError(ctypes.get_errno(), name)


def run(*words, given=None):
    """Runs a program and returns its output."""
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{socket.gethostname()}: {' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


class Device:
    """A thread in its own namespaces, with ports, a name, a /var/lib, and a /sys that shows its ports.

    The thread enters its namespaces once, because `ip netns exec` and unshare(1) for each command would cost more time
    than the command.
    """

    def __init__(self, name):
        self._thread = ThreadPoolExecutor(1)
        self.thread = self.do(self._enter, name)

    def _enter(self, name):
        own = Path("/state") / name
        own.mkdir(parents=True)
        system("unshare", CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS)
        system("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        system("mount", bytes(own), b"/var/lib", None, MS_BIND, None)
        system("mount", b"sysfs", b"/sys", b"sysfs", 0, None)
        socket.sethostname(name)
        return threading.get_native_id()

    def start(self, what, *arguments, **more):
        """Starts a function in the device's namespaces; `result()` of the returned future waits for the function."""
        return self._thread.submit(what, *arguments, **more)

    def do(self, what, *arguments, **more):
        return self.start(what, *arguments, **more).result()

    def run(self, *words, given=None):
        return self.do(run, *words, given=given)


def all_of(started):
    return [one.result() for one in started]


def build(about):
    """Creates the devices by name, and connects their ports."""
    # Other network namespaces may use only the congestion controls that the first namespace allows to all.
    run("sysctl", "-q", "-w", "net.ipv4.tcp_allowed_congestion_control=reno cubic dctcp")
    devices = {name: Device(name) for name in about["devices"]}
    # IPv6 is off, so that its frames are not counted. A port that was up once keeps its qdisc; ports that stay up have
    # an odd MTU.
    lines: dict[str, list[str]] = {name: [] for name in devices}
    for host, (nic, mac) in about["macs"].items():
        lines[host] += [f"link set dev {nic} address {mac}"]
    wires = []
    for a, port, b, other in about["links"]:
        ends = [str(devices[end].thread) for end in (a, b)]
        wires.append(f"link add name {port} netns {ends[0]} type veth peer name {other} netns {ends[1]}")
        lines[a] += [f"link set dev {port} mtu 1600 up", *([] if b in about["macs"] else [f"link set dev {port} down"])]
        lines[b] += [f"link set dev {other} mtu 1600 up"]
    run("ip", "-batch", "-", given="\n".join(wires))
    quiet = [f"net.ipv6.conf.{which}.disable_ipv6=1" for which in ("all", "default")]
    all_of(device.start(run, "sysctl", "-q", "-w", *quiet) for device in devices.values())
    all_of(devices[name].start(run, "ip", "-batch", "-", given="\n".join(own)) for name, own in lines.items())
    return devices


def state(keys):
    """The state that a script can change, without clocks and counters."""
    shows = "link\naddress\nroute show table all\nrule\nneigh show nud permanent\n"
    text = run("ip", "-j", "-d", "-batch", "-", given=shows)
    text += run("bridge", "-j", "-d", "-batch", "-", given="link\nvlan\nfdb\n")
    found, rest = [], text.strip()
    while rest:
        value, end = json.JSONDecoder().raw_decode(rest)
        found.append(sorted(json.dumps(timeless(row), sort_keys=True) for row in value))
        rest = rest[end:].strip()
    return [*found, run("sysctl", *keys)]


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if not key.endswith(("_timer", "operstate"))}
    # The kernel detects carrier some time after a link comes up, and no script sets it, so carrier is left out.
    return [timeless(item) for item in value if item not in CARRIER] if isinstance(value, list) else value


def states(devices, about):
    started = {name: device.start(state, about["keys"]) for name, device in devices.items()}
    return {name: one.result() for name, one in started.items()}


def roll_out(folder, devices, about):
    """Runs the commands of ROLLOUT.md: of each step the check, then the change."""
    for kind, names in about["order"]:
        for command in (*about["commands"][kind]["Check"], *about["commands"][kind]["Then"]):
            carry_out(folder, devices, about, command, names)


def roll_back(folder, devices, about):
    """The same list from its end; a device whose change is undone needs no second command."""
    gone: set[str] = set()
    for kind, names in reversed(about["order"]):
        for command in about["commands"][kind]["Back"]:
            carry_out(folder, devices, about, command, [name for name in names if name not in gone])
        gone |= set(names)


def carry_out(folder, devices, about, command, names):
    """A command in the folders of some devices; each is `sh SCRIPT ARGUMENT...`."""
    shell, script, *words = command.split()
    paths = {name: folder / "out" / about["devices"][name] / script for name in names}
    all_of(devices[name].start(run, shell, path, *words) for name, path in paths.items())


def wait(devices, about):
    """Waits until every port of every bridge forwards, because a link needs some time to come up."""
    ends = sum(end in about["switches"] for a, _, b, _ in about["links"] for end in (a, b))
    for _ in range(100):
        rows = [row for switch in about["switches"] for row in json.loads(devices[switch].run("bridge", "-j", "link"))]
        if len(rows) == ends and {row["state"] for row in rows} == {"forwarding"}:
            return
        time.sleep(0.2)
    raise SystemExit("the ports of the bridges do not come up")


def sniffer():
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    found.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    found.setblocking(False)
    return found


def drain(device, sniff, ports, leaving, seen):
    """Reads the TCP frames that left the ports of a switch, or arrived at the ports of a host."""
    while True:
        try:
            frame, extra, _, address = sniff.recvmsg(65536, 256)
        except BlockingIOError:
            return
        port, kind = address[0], address[2]
        if port not in ports or (kind == OUTGOING) != leaving:
            continue
        tag = None
        for level, what, data in extra:
            if (level, what) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tci, _ = struct.unpack("IIIHHHH", data)
                tag = tci if status & 16 else None
        if frame[12:14] == b"\x81\x00":
            tag, frame = struct.unpack("!H", frame[14:16])[0], frame[:12] + frame[16:]
        if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_TCP:
            ends = socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34])
            vlan, priority = (None, None) if tag is None else (tag & 4095, tag >> 13)
            seen.add((device, port, vlan, priority, frame[15] & 3, *ends))


def server():
    found = socket.create_server(("0.0.0.0", PORT))
    found.settimeout(10)
    return found


def traffic(devices, about, shown):
    """Opens a TCP connection for each pair, and records the ports that each frame passed."""
    ends = [end for a, port, b, other in about["links"] for end in ((a, port), (b, other))]
    ports = {device: {port for name, port in ends if name == device} for device in devices}
    sniffers = {name: device.do(sniffer) for name, device in devices.items()}
    servers = {name: device.do(server) for name, device in devices.items() if name not in about["switches"]}
    seen: set[tuple[object, ...]] = set()
    for number, (vlan, a, b) in enumerate(about["pairs"]):
        one = devices[a].do(socket.socket)
        one.settimeout(10)
        one.bind((about["addresses"][vlan][a], 0))
        one.connect((about["addresses"][vlan][b], PORT))
        other, _ = servers[b].accept()
        other.settimeout(10)
        one.sendall(b"ping")
        if other.recv(4) != b"ping":
            raise SystemExit(f"VLAN {vlan}, {a} to {b}: the bytes are others")
        if number == 0:
            shown["ss"] = devices[a].run("ss", "-tienH")
        one.close()
        other.close()
        time.sleep(0.01)
        for name, sniff in sniffers.items():
            drain(name, sniff, ports[name], name in about["switches"], seen)
    return sorted(map(list, seen))


def routed(folder, about):
    """The states of a host of a scenario before, after its script, after the script again, and after its undo.

    The guest has no nftables; a program that reads the rules stands in for it.
    """
    own = about["routed"]
    stand_in = Path("/usr/sbin/nft")
    stand_in.write_text("#!/bin/sh\nif [ $1 = -f ]; then cat >/dev/null; fi\n")
    stand_in.chmod(0o755)
    host, far = Device("routed"), Device("far")
    host.run("sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    run("ip", "link", "add", "name", own["nic"], "netns", str(host.thread), "type", "veth", "peer", "name", "p0",
        "netns", str(far.thread))  # fmt: skip
    host.run("ip", "link", "set", "dev", own["nic"], "address", own["mac"], "mtu", "1600", "up")
    far.run("ip", "link", "set", "dev", "p0", "mtu", "9000", "up")
    host.run("ip", "address", "add", "192.0.2.1/24", "dev", own["nic"])
    script, found = folder / "scenario" / own["folder"] / "setup.sh", {}
    for name, words in (("before", ["--check"]), ("done", []), ("again", []), ("undone", ["--undo"])):
        host.run("sh", script, *words)
        found[name] = host.do(state, own["keys"])
        if name == "done":
            asked = [(source, own["other"]) for source in own["addresses"]]
            found["routes"] = [host.run("ip", "route", "get", to, "from", source) for source, to in asked]
    return found


def main():
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    about = json.loads((folder / "about.json").read_text())
    devices = build(about)
    found, reads = {"before": states(devices, about)}, {}
    roll_out(folder, devices, about)
    wait(devices, about)
    found["done"] = states(devices, about)
    roll_out(folder, devices, about)
    found["again"] = states(devices, about)
    own = {name: out / path for name, path in about["devices"].items()}
    all_of(devices[name].start(run, "sh", folder / "collect.sh", path) for name, path in own.items())
    vlan, a, b = about["pairs"][0]
    here, there = (about["addresses"][vlan][name] for name in (a, b))
    reads["route"] = devices[a].run("ip", "route", "get", there, "from", here)
    reads["sysctl"] = devices[a].run("sysctl", *about["keys"])
    found["ways"] = traffic(devices, about, reads)
    roll_back(folder, devices, about)
    found["undone"] = states(devices, about)
    found["routed"] = routed(folder, about)
    (out / "found.json").write_text(json.dumps(found | {"reads": reads}))


if __name__ == "__main__":
    main()
