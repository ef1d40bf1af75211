# The bed's network. Sourced by ../cluster.
#
#   host ─ 10.99.I.254 ─┐            ┌─ gpu-node-1 10.99.I.11, pods 10.88.1.0/24
#                       br0 (control)┤
#   API server 10.99.I.1, 10.96.0.1 ─┘└─ gpu-node-2 10.99.I.12, pods 10.88.2.0/24
#
# The host gets one link with one address and no route but that to 10.99.I.1. I is 0 unless another bed has
# it. There is no address translation anywhere: every part has routes to every other. 10.96.0.10, the pods'
# name server, is an address on which nobody listens, so that asking for a name fails at once.

address() { # MACHINE
	case $1 in
	control) echo "$net.1" ;;
	gpu-node-*) echo "$net.1${1#gpu-node-}" ;;
	esac
}

# The first network that the host knows nothing about.
network_choose() {
	local i known
	known=$(ip -4 -o addr show; ip -4 route show table all)
	for ((i = 0; i < 10; i++)); do
		grep -q "10\.99\.$i\." <<<"$known" && continue
		echo "10.99.$i"
		return
	done
	die "ten beds are up already, or 10.99.0.0/16 is in use on this computer"
}

# nsenter's -n alone: the files and process ids are the host's.
ip_in() { # MACHINE, then lines for ip -batch on stdin
	nsenter -t "$(machine_init "$1")" -n ip -batch -
}

network_up() {
	local n node other
	exec 8<"$binaries"
	flock 8
	net=$(network_choose)
	echo "$net" >"$state/net"
	ip link add "$link" type veth peer name host netns "$(machine_init control)"
	ip addr add "$net.254" peer "$net.1" dev "$link"
	ip link set "$link" up
	exec 8<&-

	ip_in control <<-END
		link set lo up
		addr add 10.96.0.1/32 dev lo
		addr add 10.96.0.10/32 dev lo
		link add br0 type bridge
		addr add $net.1/24 dev br0
		link set host master br0
		link set br0 up
		link set host up
	END
	for n in 1 2; do
		node=gpu-node-$n other=$((3 - n))
		ip_in control <<-END
			link add node$n type veth peer name eth0 netns $(machine_init $node)
			link set node$n master br0
			link set node$n up
			route add 10.88.$n.0/24 via $net.1$n
		END
		ip_in $node <<-END
			link set lo up
			addr add $net.1$n/24 dev eth0
			link set eth0 up
			route add 10.96.0.1 via $net.1
			route add 10.96.0.10 via $net.1
			route add 10.88.$other.0/24 via $net.1$other
		END
	done
}

network_down() {
	# The kernel may be at it too: the link ends with the namespace of its other end.
	ip link delete "$link" 2>/dev/null || true
	[ ! -e "/sys/class/net/$link" ]
}
