#!/bin/bash
# Measures the idle platform: seconds until ready, resident memory and CPU of all its processes.
#   bench/platform.sh [seconds of idling, default 30]
set -eu
idle=${1:-30}
ringfence=${RINGFENCE:-build/ringfence}
work=$(mktemp -d /tmp/ringfence-bench.XXXXXX)
trap 'kill -INT $up 2>/dev/null; wait $up 2>/dev/null; rm -rf "$work"' EXIT

start=$(date +%s%N)
"$ringfence" up --data "$work/data" --listen 127.0.0.1:0 --dashboard 127.0.0.1:0 --simulate 2xH200 >"$work/log" 2>&1 &
up=$!
until grep -qx ready "$work/log"; do sleep 0.01; kill -0 $up; done
first=$(($(date +%s%N) - start))
kill -INT $up; wait $up || true
start=$(date +%s%N)
"$ringfence" up --data "$work/data" --listen 127.0.0.1:0 --dashboard 127.0.0.1:0 --simulate 2xH200 >"$work/log" 2>&1 &
up=$!
until grep -qx ready "$work/log"; do sleep 0.01; kill -0 $up; done
second=$(($(date +%s%N) - start))
echo "ready after $((first / 1000000)) ms with an empty data folder, $((second / 1000000)) ms with a used one"

sleep 3
pids="$up $(pgrep -P $up | tr '\n' ' ')"
# Nanoseconds on a CPU, exact; clock ticks would round a process that runs for microseconds down to nothing.
used() { for p in $pids; do cat "/proc/$p/task/"*/schedstat; done | awk '{s += $1} END {printf "%.0f", s}'; }
before=$(used)
sleep "$idle"
after=$(used)
total=0
for p in $pids; do
	rss=$(awk '/^VmRSS/ {print $2}' "/proc/$p/status")
	pss=$(awk '/^Pss:/ {print $2}' "/proc/$p/smaps_rollup")
	name=$(tr '\0' ' ' <"/proc/$p/cmdline" | awk '{print $2}')
	printf '%-10s %6d kB resident, %6d kB of it its own share\n' "$name" "$rss" "$pss"
	total=$((total + rss))
done
echo "together   $total kB resident"
awk -v ns=$((after - before)) -v s="$idle" 'BEGIN {printf "idle CPU   %.3f %% of a core over %d s\n", ns / 1e7 / s, s}'
