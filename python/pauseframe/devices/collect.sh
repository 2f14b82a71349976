#!/bin/sh
# Collects what `pauseframe lint` reads of a Linux host or switch. It reads only, and writes only into the folder that
# you name: collect.sh FOLDER. No root is needed but for dcb of some drivers. Then: pauseframe lint FOLDER
set -u
out=${1:?usage: collect.sh FOLDER}
mkdir -p "$out" || exit 1
hostname > "$out/hostname"
ip -j -d link show > "$out/ip-link.json"
ip -j address show > "$out/ip-addr.json"
ip -j -d route show table all > "$out/ip-route.json"
ip -j neigh show > "$out/ip-neigh.json"
bridge -j fdb show > "$out/bridge-fdb.json"
bridge -j vlan show > "$out/bridge-vlan.json"
for key in ecn rmem wmem congestion_control slow_start_after_idle no_metrics_save sack dsack timestamps recovery \
  early_retrans frto reordering syn_retries retries2; do
  sysctl "net.ipv4.tcp_$key" 2>/dev/null
done > "$out/sysctl.txt"
if command -v lldpctl >/dev/null 2>&1; then lldpctl -f json0 > "$out/lldp.json"; fi
if command -v dcb >/dev/null 2>&1; then
  for path in /sys/class/net/*; do
    dev=${path##*/}
    dcb -j pfc show dev "$dev" > "$out/dcb-pfc-$dev.json" 2>/dev/null || rm -f "$out/dcb-pfc-$dev.json"
    dcb -j app show dev "$dev" > "$out/dcb-app-$dev.json" 2>/dev/null || rm -f "$out/dcb-app-$dev.json"
  done
fi
