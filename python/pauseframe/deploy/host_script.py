"""The constant parts of `setup.sh` of a host of a scenario."""

from __future__ import annotations

ROCE = """\
# DCQCN, and the traffic class (DSCP and ECN) of RoCE packets. The same registers stand in mlxconfig.txt.
roce() {
  ecn=/sys/class/net/$nic/ecn
  keep "registers.$nic" registers_of_nic
  for pair in $registers; do
    if [ -e "$ecn/${pair%%=*}" ]; then
      echo "${pair#*=}" > "$ecn/${pair%%=*}"
    else
      echo "setup.sh: $nic has no $ecn/${pair%%=*}" >&2
    fi
  done
  for device in "/sys/class/net/$nic/device/infiniband/"*; do
    class=/sys/class/infiniband/${device##*/}/tc/1/traffic_class
    if [ -e "$class" ]; then echo "$roce_tos" > "$class"; fi
    if command -v cma_roce_tos >/dev/null 2>&1; then cma_roce_tos -d "${device##*/}" -t "$roce_tos" >/dev/null; fi
  done
}

registers_of_nic() {
  for pair in $registers; do
    file=/sys/class/net/$nic/ecn/${pair%%=*}
    if [ -e "$file" ]; then echo "$file $(cat "$file")"; fi
  done
  for file in "/sys/class/net/$nic/device/infiniband/"*; do
    class=/sys/class/infiniband/${file##*/}/tc/1/traffic_class
    if [ -e "$class" ]; then echo "$class $(sed 's/[^0-9]*//g' "$class")"; fi
  done
}

registers_back() {
  if [ -s "$state/registers.$nic" ]; then
    while read -r file value; do echo "$value" > "$file"; done < "$state/registers.$nic"
  fi
  rm -f "$state/registers.$nic"
}
"""
HEAD = """#!/bin/sh
# Written by `pauseframe deploy`. Read it, then as root: setup.sh --check, setup.sh; setup.sh --undo takes it back.
# Running it twice does no harm.
set -eu
nic={nic}
mac='{mac}'
state={state}
keys='{keys}'
addresses='{addresses}'
prefixes='{prefixes}'
tables='{tables}'
controls='{controls}'
registers='{registers}'
roce_tos='{roce_tos}'
{ports}
{keep}
wrong() {{
  echo "setup.sh: $*" >&2
  faults=1
}}

# Whether the host is as expected. It changes nothing.
check() {{
  faults=0
  if [ -z "$mac" ]; then
    :
  elif ! have "$nic"; then
    wrong "no interface $nic"
  elif ! ip -d -o link show dev "$nic" | grep -q "link/ether $mac\\|permaddr $mac"; then
    wrong "$nic has another MAC address than $mac"
  fi
  for name in $controls; do
    grep -qw "$name" /proc/sys/net/ipv4/tcp_available_congestion_control || modprobe "tcp_$name" 2>/dev/null ||
      wrong "the kernel has no congestion control $name"
  done
  for pair in $tables; do
    if [ ! -e "$state/address" ] && [ -n "$(ip route show table "${{pair%%:*}}" 2>/dev/null)" ]; then
      wrong "routing table ${{pair%%:*}} is in use"
    fi
  done
  return "$faults"
}}

# Trust, PFC and shares by priority: mlnx_qos where NVIDIA's tools are, else dcb (iproute2).
qos() {{
  if command -v mlnx_qos >/dev/null 2>&1; then
    keep qos mlnx_qos -i "$nic" &&
      mlnx_qos -i "$nic" --trust dscp --pfc {mlnx} --prio_tc 0,1,2,3,4,5,6,7 --tsa {tsa} --tcbw {tcbw} >/dev/null ||
      echo "setup.sh: $nic takes no QoS" >&2
  else
    keep dcb dcb_of_nic 2>/dev/null && dcb app replace dev "$nic" dscp-prio {app} &&
      dcb pfc set dev "$nic" prio-pfc {pfc} &&
      dcb ets set dev "$nic" tc-tsa {dcb_tsa} tc-bw {dcb_bw} prio-tc {same} ||
      echo "setup.sh: $nic takes no QoS" >&2
  fi
}}

# Each line is a command of dcb that sets what is there now.
dcb_of_nic() {{
  pfc=$(dcb pfc show dev "$nic" prio-pfc) && kinds=$(dcb ets show dev "$nic" tc-tsa) &&
    shares=$(dcb ets show dev "$nic" tc-bw) && classes=$(dcb ets show dev "$nic" prio-tc) &&
    points=$(dcb app show dev "$nic" dscp-prio) || return 1
  echo "pfc set dev $nic $pfc"
  echo "ets set dev $nic $kinds $shares"
  echo "ets set dev $nic $classes"
  echo "app flush dev $nic dscp-prio"
  if [ -n "$points" ]; then echo "app replace dev $nic $points"; fi
}}

# A list of values with commas between them.
joined() {{ tr -s ' \\t\\n' ',,,' | sed 's/^,//; s/,$//'; }}

qos_back() {{
  if [ -s "$state/qos" ]; then
    mlnx_qos -i "$nic" \\
      --trust "$(sed -n 's/^Priority trust state: *//p' "$state/qos")" \\
      --pfc "$(sed -n 's/^[[:space:]]*enabled[[:space:]]*//p' "$state/qos" | joined)" \\
      --tsa "$(sed -n 's/^tc: .*tsa: *\\([a-z]*\\).*/\\1/p' "$state/qos" | joined)" \\
      --tcbw "$(sed -n '/^tc: /{{ s/.*bw: *\\([0-9]*\\)%.*/\\1/; t got
        s/.*/0/; :got
        p; }}' "$state/qos" | joined)" >/dev/null
  fi
  if [ -s "$state/dcb" ]; then
    while read -r line; do dcb $line; done < "$state/dcb"
  fi
}}

{roce}
offload_of() {{
  device=$1
  shift
  for name in "$@"; do
    case "$name" in tso) long=tcp-segmentation-offload ;; *) long=generic-receive-offload ;; esac
    echo "$name $(ethtool -k "$device" | sed -n "s/^$long: \\([a-z]*\\).*/\\1/p")"
  done
}}

keep_routes() {{
  for prefix in $prefixes; do
    keep "route.$(echo "$prefix" | tr / _)" ip route show exact "$prefix"
  done
}}

undo() {{
  if [ -e "$state/address" ]; then
    if command -v nft >/dev/null 2>&1; then nft delete table inet pauseframe 2>/dev/null || true; fi
    for pair in $tables; do
      ip rule del from "${{pair#*:}}" lookup "${{pair%%:*}}" 2>/dev/null || true
      ip route flush table "${{pair%%:*}}" 2>/dev/null || true
    done
    for prefix in $prefixes; do
      ip route del "$prefix" dev "$nic" 2>/dev/null || true
    done
    for address in $addresses; do
      grep -q " $address " "$state/address" || ip address del "$address" dev "$nic" 2>/dev/null || true
    done
    for prefix in $prefixes; do
      file=$state/route.$(echo "$prefix" | tr / _)
      while read -r line; do ip route replace $line; done < "$file"
      rm "$file"
    done
  fi
  qos_back
  registers_back
  if [ -s "$state/offload" ]; then ethtool -K "$nic" $(cat "$state/offload"); fi
  if [ -e "$state/sysctl" ]; then sysctl -q -p "$state/sysctl"; fi
  if [ -e "$state/bond" ]; then
    rm "$state/bond"
    ip link delete dev "$nic" 2>/dev/null || true
  fi
  link_back "$nic"
  rm -f "$state/address" "$state/qos" "$state/dcb" "$state/offload" "$state/sysctl"
}}
"""
PORTS = """
# port NAME: the values of one of several interfaces; each keeps its own state for --undo.
port() {{
  nic=$1
  state={state}/$1
  case "$1" in
{cases}
  esac
}}

# each COMMAND: the command for each interface. A fault of one does not end it.
each() {{
  failed=0
  for one in {order}; do
    port "$one"
    "$@" || failed=1
  done
  return "$failed"
}}

# join BOND: the interface is a port of the bond, which takes ports that are down.
join() {{
  ip -o link show dev "$nic" | grep -q "master $1 " || {{
    ip link set dev "$nic" down
    ip link set dev "$nic" master "$1"
  }}
  ip link set dev "$nic" up
}}
"""
TAIL = """
case "${{1:-}}" in
  --check) {each}check ;;
  --undo) {each}undo ;;
  '') setup ;;
  *) echo "usage: setup.sh [--check | --undo]" >&2; exit 2 ;;
esac
"""
