"""Runs in namespaces of its own (`unshare -rnm`): a deployed fabric of Linux bridges, and a frame for each pair.

Arguments: the deployment, and a JSON file with `links` [[device, port, device, port]], `hosts` {name: [nic, mac]},
`switches` {name: folder}, `vlans`, `pairs` {VLAN: [[from, to]]}. Prints one JSON value: `mode` ("vlan", or "plain"
where the kernel has no VLAN filtering: then the rows of the first VLAN on bridges without), `paths` {"VLAN from to":
the switches that forwarded}, `fdb` {switch: the rows that the kernel has}.
"""

import ctypes
import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

ETH_P_ALL, KIND = 3, b"\x88\xb5"


def run(*words, check=True, text=None):
    done = subprocess.run(words, capture_output=True, text=True, input=text, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def inside(name, *words, **options):
    return run("ip", "netns", "exec", name, *words, **options)


def build(about):
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    names = {device: f"n{i}" for i, device in enumerate([*about["switches"], *about["hosts"]])}
    for name in names.values():
        run("ip", "netns", "add", name)
        for which in ("all", "default"):  # frames of IPv6's own would be counted
            inside(name, "sysctl", "-q", "-w", f"net.ipv6.conf.{which}.disable_ipv6=1", check=False)
    for a, port, b, other in about["links"]:
        run(
            "ip",
            "link",
            "add",
            "name",
            port,
            "netns",
            names[a],
            "type",
            "veth",
            "peer",
            "name",
            other,
            "netns",
            names[b],
        )
    for host, (nic, mac) in about["hosts"].items():
        inside(names[host], "ip", "link", "set", "dev", nic, "address", mac, "up")
    return names


def set_up(folder, about, names, mode):
    for switch, own in about["switches"].items():
        script = (folder / "switches" / own / "setup.sh").read_text()
        if mode == "plain":
            script = plain(script, about["vlans"][0])
        inside(names[switch], "sh", "-s", text=script)


def wait(about, names):
    """Until every port of every bridge forwards: a link needs a moment to come up."""
    for _ in range(100):
        states = [
            row["state"]
            for switch in about["switches"]
            for row in json.loads(inside(names[switch], "bridge", "-j", "link"))
        ]
        if len(states) >= len(about["links"]) and set(states) == {"forwarding"}:
            time.sleep(1)
            return
        time.sleep(0.1)
    raise SystemExit("the ports of the bridges do not come up")


def plain(script, vlan):
    """The script without VLANs: the rows of one, on bridges that do not filter."""
    kept = []
    for line in script.splitlines():
        if "bridge vlan add" in line or ("bridge fdb" in line and f" vlan {vlan} " not in line):
            continue
        kept.append(re.sub(r" vlan_filtering 1| vlan_default_pvid 0| vlan \d+(?= master)", "", line))
    return "\n".join(kept) + "\n"


def sent(name):
    """Frames that left by the ports of a bridge."""
    rows = json.loads(inside(name, "ip", "-j", "-s", "link", "show", "type", "veth"))
    return sum(row["stats64"]["tx"]["packets"] for row in rows)


def receiver(name, nic):
    """A raw socket in a namespace."""
    with Path("/proc/self/ns/net").open() as here, Path(f"/run/netns/{name}").open() as there:
        enter(there)
        try:
            found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            found.bind((nic, 0))
            found.settimeout(2)
        finally:
            enter(here)
    return found


def enter(namespace):
    """setns(2); `os.setns` came with Python 3.12."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0):
        raise OSError(ctypes.get_errno(), "setns")


def deliver(sockets, about, names, source, target, vlan, number):
    """Sends one frame and waits for it; the switches that sent it on."""
    before = {switch: sent(names[switch]) for switch in about["switches"]}
    macs = [bytes.fromhex(about["hosts"][host][1].replace(":", "")) for host in (target, source)]
    tag = b"" if vlan is None else b"\x81\x00" + vlan.to_bytes(2, "big")
    payload = b"pauseframe" + number.to_bytes(4, "big")
    sockets[source].send(b"".join(macs) + tag + KIND + payload.ljust(50, b"\0"))
    while payload not in sockets[target].recv(2048):
        pass
    return sorted(switch for switch in about["switches"] if sent(names[switch]) > before[switch])


def main():
    folder, about = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    names = build(about)
    probe = subprocess.run(
        ["ip", "link", "add", "name", "probe", "type", "bridge", "vlan_filtering", "1"],
        capture_output=True,
        check=False,
    )
    mode = "vlan" if probe.returncode == 0 else "plain"
    set_up(folder, about, names, mode)
    wait(about, names)
    sockets = {host: receiver(names[host], nic) for host, (nic, _) in about["hosts"].items()}
    paths, number = {}, 0
    for vlan in about["vlans"] if mode == "vlan" else about["vlans"][:1]:
        for source, target in about["pairs"][str(vlan)]:
            number += 1
            way = deliver(sockets, about, names, source, target, vlan if mode == "vlan" else None, number)
            paths[f"{vlan} {source} {target}"] = way
    fdb = {switch: json.loads(inside(names[switch], "bridge", "-j", "fdb", "show")) for switch in about["switches"]}
    print(json.dumps({"mode": mode, "paths": paths, "fdb": fdb}))


main()
