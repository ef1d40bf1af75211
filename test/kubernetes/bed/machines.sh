# The bed's machines: sets of namespaces with a root folder and cgroups of their own. Sourced by ../cluster.
# A machine is known by the host's process id of its init (STATE/NAME/init); all that runs in it is in the
# cgroups below BED, so that it is found and ended by process id even when nothing was written down.

# The cgroup hierarchies that machines get their own part of: all of v1's, or v2's where there is no v1.
cgroup_mounts() {
	awk '$3 == "cgroup" { v1 = v1 $2 "\n" } $3 == "cgroup2" { v2 = $2 "\n" }
		END { printf "%s", v1 == "" ? v2 : v1 }' /proc/self/mounts
}

cgroups_make() { # MACHINE
	local mount dir file
	for mount in $(cgroup_mounts); do
		for dir in "$mount/$bed" "$mount/$bed/$1" "$mount/$bed/$1/system"; do
			mkdir -p "$dir"
			for file in cpuset.cpus cpuset.mems; do
				[ ! -f "$mount/notify_on_release" ] || [ ! -f "$mount/$file" ] ||
					cat "$mount/$file" >"$dir/$file"
			done
		done
		[ ! -f "$mount/cgroup.subtree_control" ] || for dir in "$mount" "$mount/$bed"; do
			for file in cpuset cpu io memory pids; do
				echo "+$file" >"$dir/cgroup.subtree_control" 2>/dev/null || true
			done
		done
	done
}

# Moves the calling (sub)shell into a cgroup of the bed.
cgroups_join() { # MACHINE[/SUB]
	local mount
	for mount in $(cgroup_mounts); do
		echo "$BASHPID" >"$mount/$bed/$1/cgroup.procs"
	done
}

# Every process in the bed's cgroups, by the host's process ids.
cgroups_pids() {
	local mount
	for mount in $(cgroup_mounts); do
		[ -d "$mount/$bed" ] || continue
		find "$mount/$bed" -name cgroup.procs -exec cat {} + 2>/dev/null || true
	done | sort -un | grep -vx 0 || true
}

cgroups_remove() {
	local mount
	for mount in $(cgroup_mounts); do
		[ ! -d "$mount/$bed" ] || find "$mount/$bed" -depth -type d -exec rmdir {} + 2>/dev/null || true
	done
	! cgroups_exist
}

cgroups_exist() {
	local mount
	for mount in $(cgroup_mounts); do
		[ ! -d "$mount/$bed" ] || return 0
	done
	return 1
}

machine_start() { # MACHINE
	local root=$state/$1/root
	mkdir -p "$root"
	cp "$state/init" "$root/init"
	cgroups_make "$1"
	(
		cgroups_join "$1"
		# Without --fork it is the shell's first child that becomes process 1 of the new namespace;
		# the shell itself ends, so that nothing but the machine is left.
		exec unshare -m -u -i -n -p -C bash -c 'pidfile=$1; shift; setsid "$@" & echo $! >"$pidfile"' _ \
			"$state/$1/init" "$here/bed/machine" "$1" "$root" "$binaries" "$tree" "$(cgroup_mounts)"
	) 9>&- </dev/null >"$state/log/machine-$1.log" 2>&1
	wait_for 10 "machine $1" "machine-$1" test -e "/proc/$(machine_init "$1")/root/run/ready"
}

machine_init() { # MACHINE: the host's process id of its init
	cat "$state/$1/init" 2>/dev/null
}

machine_alive() { # MACHINE
	local pid
	pid=$(machine_init "$1") && [ -n "$pid" ] && [ -d "/proc/$pid" ] &&
		grep -q "/$bed/$1/system" "/proc/$pid/cgroup" 2>/dev/null
}

# Runs a command inside a machine, in the foreground.
machine_run() { # MACHINE COMMAND...
	local machine=$1
	shift
	machine_alive "$machine" || die "machine $machine is not up (state folder $state)"
	(
		cgroups_join "$machine/system"
		exec nsenter -t "$(machine_init "$machine")" -m -u -i -n -p -C -- \
			env -C / -i --default-signal TERM="${TERM:-dumb}" HOME=/root PATH="$machine_path" "$@"
	) 9>&-
}

# Ends every process of the bed, by process id.
machines_kill() {
	local pids tries
	for ((tries = 0; tries < 200; tries++)); do
		pids=$(cgroups_pids)
		[ -n "$pids" ] || return 0
		# shellcheck disable=SC2086
		kill -9 $pids 2>/dev/null || true
		sleep 0.05
	done
	die "these processes do not end: $pids"
}
