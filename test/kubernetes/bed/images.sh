# The bed's images, made by hand as docker-archive files: there is no registry. Sourced by ../cluster.
#   localhost/pause:e2e     what containerd holds a pod's namespaces with
#   localhost/busybox:e2e   Debian's static busybox; root
#   localhost/runtime:e2e   busybox and the C and C++ runtime libraries of this computer; user 65534

images_make() {
	local rootfs=$state/images
	mkdir -p "$rootfs/pause" "$rootfs/busybox/bin" "$rootfs/runtime"
	cp "$state/init" "$rootfs/pause/pause"
	image pause '"Entrypoint":["/pause"]'

	rootfs_common "$rootfs/busybox"
	cp "$(command -v busybox)" "$rootfs/busybox/bin/busybox"
	local applet
	for applet in $(busybox --list); do
		[ "$applet" = busybox ] || ln -s busybox "$rootfs/busybox/bin/$applet"
	done
	cp -a "$rootfs/busybox/." "$rootfs/runtime/"
	image busybox '"Cmd":["sh"]'

	local library path
	for library in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libgcc_s.so.1 libstdc++.so.6 \
		libresolv.so.2 libnss_files.so.2 "$(basename "$(loader)")"; do
		path=$(library_path "$library")
		[ -n "$path" ] || die "there is no $library on this computer, which localhost/runtime:e2e needs"
		install -D -m 755 "$path" "$rootfs/runtime$path"
	done
	image runtime '"Cmd":["sh"],"User":"65534:65534","WorkingDir":"/tmp"'
}

# The path by which programs name the dynamic loader, read from one of them.
loader() { LC_ALL=C readelf -l /bin/sh | sed -n 's/.*interpreter: \(.*\)]/\1/p'; }

library_path() { # NAME
	case $1 in ld-*) loader && return ;; esac
	ldconfig -p | awk -v name="$1" -v arch="$(uname -m | tr _ -)" \
		'$1 == name && (index($0, arch) || !found) { found = $NF } END { print found }'
}

rootfs_common() { # FOLDER
	mkdir -p "$1/etc" "$1/tmp" "$1/root" "$1/proc" "$1/sys" "$1/dev"
	chmod 1777 "$1/tmp"
	printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n' >"$1/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$1/etc/group"
}

image() { # NAME CONFIG: the folder NAME becomes NAME.tar
	local folder=$state/images/$1.image arch
	mkdir "$folder"
	tar --sort=name --mtime=@0 --numeric-owner --owner=0 --group=0 -C "$state/images/$1" -cf "$folder/layer.tar" .
	case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
	printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],%s},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
		"$arch" "$2" "$(sha256sum "$folder/layer.tar" | cut -d' ' -f1)" >"$folder/config.json"
	printf '[{"Config":"config.json","RepoTags":["localhost/%s:e2e"],"Layers":["layer.tar"]}]' "$1" \
		>"$folder/manifest.json"
	tar -C "$folder" -cf "$state/images/$1.tar" manifest.json config.json layer.tar
	rm -rf "$folder"
}

image_import() { # FILE: into both nodes, at once
	local n file=$1 importers=() failed=
	for n in 1 2; do
		machine_run gpu-node-$n ctr -n k8s.io images import --local=true - <"$file" \
			>"$state/log/import-$n.log" 2>&1 &
		importers+=($!)
	done
	for n in "${importers[@]}"; do wait "$n" || failed=yes; done
	[ -z "$failed" ] || { cat "$state"/log/import-?.log >&2; die "$file could not be imported"; }
}
