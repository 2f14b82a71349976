"""Runs as root in a guest of its own (kernel_guest.py): a deployed fabric of Linux bridges and hosts, and what they do.

Arguments: a folder with `about.json`, `collect.sh` and the deployment `out`; a folder for what was found.

`about.json`: `links` [[device, port, device, port]], `devices` {name: folder in `out`}, `switches`, `order` of the
roll-out [[kind, names]], `addresses` {VLAN: {host: address}}, `macs` {host: [nic, address]}, `keys` (sysctls), `pairs`
[[VLAN, from, to]]. Every device is a namespace with a /var/lib of its own. Written are `before`, `done`, `again`,
`undone` (states by device), `ways` ([device, port, VLAN, priority, ECN field, source, target] of every TCP frame that
left by a port of a switch or came to a host), `reads` (what a host's ip and ss show), and the folders of collect.sh.
"""

import ctypes
import encodings.idna  # noqa: F401 - sockets look for it
import json
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA, OUTGOING, PORT = 3, 263, 8, 4, 5000
CARRIER = ("LOWER_UP", "NO-CARRIER")


def run(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def inside(device, script):
    """Runs a shell script in the namespace of a device."""
    return run("ip", "netns", "exec", device, "sh", "-ec", script)


def on(device, script):
    """Runs a shell script with the name and the /var/lib of a device."""
    own = Path("/state") / device
    own.mkdir(parents=True, exist_ok=True)
    whole = f"hostname {device}; mount --bind {own} /var/lib; {script}"
    return run("ip", "netns", "exec", device, "unshare", "--uts", "/usr/sbin/sh", "-ec", whole)


def build(about):
    # A namespace other than the first may only use what the first allows to all.
    run("sysctl", "-q", "-w", "net.ipv4.tcp_allowed_congestion_control=reno cubic dctcp")
    for device in about["devices"]:
        run("ip", "netns", "add", device)
    # Frames of IPv6's own would be counted. A port that was up once keeps its qdisc; some stay up, with an odd MTU.
    quiet = "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1; ip -batch - <<LINKS\n"
    lines: dict[str, list[str]] = {device: [] for device in about["devices"]}
    for host, (nic, mac) in about["macs"].items():
        lines[host] += [f"link set dev {nic} address {mac}"]
    for a, port, b, other in about["links"]:
        run("ip", "link", "add", "name", port, "netns", a, "type", "veth", "peer", "name", other, "netns", b)
        lines[a] += [f"link set dev {port} mtu 1600 up", *([] if b in about["macs"] else [f"link set dev {port} down"])]
        lines[b] += [f"link set dev {other} mtu 1600 up"]
    for device, own in lines.items():
        inside(device, quiet + "\n".join([*own, "LINKS"]))


def state(device, about):
    """What can be changed by a script, without clocks and counters."""
    script = """ip -j -d -batch - <<'SHOWS'
link
address
route show table all
neigh show nud permanent
SHOWS
bridge -j -d -batch - <<'SHOWS'
link
vlan
fdb
SHOWS"""
    text, keys = inside(device, f"{script}\necho KEYS; sysctl {' '.join(about['keys'])}").split("KEYS\n")
    found, rest = [], text.strip()
    while rest:
        value, end = json.JSONDecoder().raw_decode(rest)
        found.append(sorted(json.dumps(timeless(row), sort_keys=True) for row in value))
        rest = rest[end:].strip()
    return [*found, keys]


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if not key.endswith(("_timer", "operstate"))}
    # Carrier is noticed some time after a link has come up, and no script sets it.
    return [timeless(item) for item in value if item not in CARRIER] if isinstance(value, list) else value


def states(about):
    return {device: state(device, about) for device in about["devices"]}


def roll_out(folder, about):
    for kind, names in about["order"]:
        for name in names:
            script = folder / "out" / about["devices"][name] / "setup.sh"
            on(name, f"sh {script}{' --receive' if kind == 'receive' else ''}")


def roll_back(folder, about):
    for _, names in reversed(about["order"]):
        for name in names:
            on(name, f"sh {folder / 'out' / about['devices'][name] / 'setup.sh'} --undo")


def wait(about):
    """Until every port of every bridge forwards: a link needs a moment to come up."""
    for _ in range(100):
        rows = [row for switch in about["switches"] for row in json.loads(inside(switch, "bridge -j link"))]
        ends = sum(end in about["switches"] for a, _, b, _ in about["links"] for end in (a, b))
        if len(rows) == ends and {row["state"] for row in rows} == {"forwarding"}:
            return
        time.sleep(0.2)
    raise SystemExit("the ports of the bridges do not come up")


def socket_in(device, *kind):
    """A socket of a device's namespace. setns(2): `os.setns` came with Python 3.12."""
    with Path("/proc/self/ns/net").open() as here, Path(f"/run/netns/{device}").open() as there:
        enter(there)
        try:
            return socket.socket(*kind)
        finally:
            enter(here)


def enter(namespace):
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0):
        raise OSError(ctypes.get_errno(), "setns")


def sniffer(device):
    found = socket_in(device, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    found.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    found.setblocking(False)
    return found


def drain(device, sniff, ports, leaving, seen):
    """TCP frames that left by a switch's ports, or came to a host's."""
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


def traffic(about, shown):
    """A TCP connection for each pair; what went where."""
    ends = [end for a, port, b, other in about["links"] for end in ((a, port), (b, other))]
    ports = {device: {port for name, port in ends if name == device} for device in about["devices"]}
    sniffers = {device: sniffer(device) for device in about["devices"]}
    servers: dict[str, socket.socket] = {}
    seen: set[tuple[object, ...]] = set()
    for host in set(about["devices"]) - set(about["switches"]):
        servers[host] = socket_in(host, socket.AF_INET, socket.SOCK_STREAM)
        servers[host].bind(("0.0.0.0", PORT))
        servers[host].listen()
    for number, (vlan, a, b) in enumerate(about["pairs"]):
        one = socket_in(a, socket.AF_INET, socket.SOCK_STREAM)
        one.settimeout(10)
        one.bind((about["addresses"][vlan][a], 0))
        one.connect((about["addresses"][vlan][b], PORT))
        other, _ = servers[b].accept()
        other.settimeout(10)
        one.sendall(b"ping")
        if other.recv(4) != b"ping":
            raise SystemExit(f"VLAN {vlan}, {a} to {b}: the bytes are others")
        if number == 0:
            shown["ss"] = inside(a, "ss -tienH")
        one.close()
        other.close()
        time.sleep(0.01)
        for device, sniff in sniffers.items():
            drain(device, sniff, ports[device], device in about["switches"], seen)
    return sorted(map(list, seen))


def main():
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    about = json.loads((folder / "about.json").read_text())
    build(about)
    found, reads = {"before": states(about)}, {}
    roll_out(folder, about)
    wait(about)
    found["done"] = states(about)
    roll_out(folder, about)
    found["again"] = states(about)
    for device, own in about["devices"].items():
        on(device, f"sh {folder / 'collect.sh'} {out / own}")
    vlan, a, b = about["pairs"][0]
    ends = about["addresses"][vlan][b], about["addresses"][vlan][a]
    reads["route"] = inside(a, "ip route get {} from {}".format(*ends))
    reads["sysctl"] = inside(a, f"sysctl {' '.join(about['keys'])}")
    found["ways"] = traffic(about, reads)
    roll_back(folder, about)
    found["undone"] = states(about)
    (out / "found.json").write_text(json.dumps(found | {"reads": reads}))


if __name__ == "__main__":
    main()
