#!/bin/sh
# Collects what `pauseframe lint` reads of a Linux host or switch. It reads only, and writes only into the folder that
# you name: collect.sh FOLDER. Root is needed for nft, and for dcb of some drivers. Then: pauseframe lint FOLDER
set -u
out=${1:?usage: collect.sh FOLDER}
mkdir -p "$out" || exit 1
hostname > "$out/hostname"
ip -j -d link show > "$out/ip-link.json"
ip -j address show > "$out/ip-addr.json"
ip -j -d route show table all > "$out/ip-route.json"
ip -j rule show > "$out/ip-rule.json"
ip -j neigh show > "$out/ip-neigh.json"
bridge -j fdb show > "$out/bridge-fdb.json"
bridge -j vlan show > "$out/bridge-vlan.json"
for key in ecn rmem wmem congestion_control slow_start_after_idle no_metrics_save sack dsack timestamps recovery \
  early_retrans frto reordering syn_retries retries2; do
  sysctl "net.ipv4.tcp_$key" 2>/dev/null
done > "$out/sysctl.txt"

# has COMMAND: notes a command that is missing, because its values then are unknown.
has() {
  command -v "$1" >/dev/null 2>&1 || { echo "collect.sh: no $1: $2 not collected" >&2; return 1; }
}

# into FILE COMMAND...: what the command prints, unless it fails.
into() {
  file=$out/$1
  shift
  "$@" > "$file" 2>/dev/null || rm -f "$file"
}

if has lldpctl neighbours; then into lldp.json lldpctl -f json0; fi
if has nft "DSCPs of packets by address"; then
  into nft.json nft -j -n list ruleset
  [ -e "$out/nft.json" ] || echo "collect.sh: nft shows no rules (root?): DSCPs of packets by address not collected" >&2
fi
for path in /sys/class/net/*; do
  if speed=$(cat "$path/speed" 2>/dev/null); then echo "${path##*/} $speed"; fi
done > "$out/speed.txt"
# Registers of DCQCN, and the traffic class of RoCE packets, as setup.sh of `pauseframe deploy` sets them.
for file in /sys/class/net/*/ecn/roce_[nr]p/* /sys/class/net/*/device/infiniband/*/tc/1/traffic_class; do
  if [ -f "$file" ] && value=$(cat "$file" 2>/dev/null); then echo "$file $value"; fi
done > "$out/roce.txt"
if has dcb "PFC, DSCPs and shares of NICs"; then
  for path in /sys/class/net/*; do
    dev=${path##*/}
    for kind in pfc app ets; do into "dcb-$kind-$dev.json" dcb -j "$kind" show dev "$dev"; done
  done
fi
if has ethtool "offloads of NICs"; then
  for path in /sys/class/net/*; do into "ethtool-${path##*/}.txt" ethtool -k "${path##*/}"; done
fi
