# Where images of pods with GPUs come from. An entry of the list is a registry or a repository and
# everything below it: registry.example.com/team does not stand for registry.example.com/team-b.
package gpu_images

import data.lib.gpu

# Anything else might be read differently by whoever pulls it.
well_formed(image) if {
	is_string(image)
	regex.match(`^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$`, image)
}

without_digest(image) := split(image, "@")[0]

# A colon after the last slash begins the tag; one before is a port.
without_tag(name) := trim_suffix(name, concat("", [":", tag(name)])) if {
	tag(name)
} else := name

tag(name) := parts[1] if {
	slashes := split(name, "/")
	parts := split(slashes[count(slashes) - 1], ":")
	count(parts) > 1
}

# As docker reads names without a registry: team/app is docker.io/team/app, app is docker.io/library/app.
full(name) := concat("/", array.concat([host(parts[0])], array.slice(parts, 1, count(parts)))) if {
	parts := split(name, "/")
	count(parts) > 1
	is_host(parts[0])
} else := concat("/", ["docker.io", name]) if {
	contains(name, "/")
} else := concat("/", ["docker.io/library", name])

is_host(part) if contains(part, ".")

is_host(part) if contains(part, ":")

is_host(part) if lower(part) == "localhost"

host(part) := "docker.io" if {
	lower(part) in ["index.docker.io", "registry-1.docker.io"]
} else := lower(part)

repository(image) := full(without_tag(without_digest(image)))

# A registry alone, or a repository. Entries may end in / or not.
entry(prefix) := lower(plain) if {
	plain := trim_right(prefix, "/")
	not contains(plain, "/")
	is_host(plain)
} else := full(trim_right(prefix, "/"))

entries := {entry(prefix) | some prefix in gpu.parameter("allowed", [])}

beginnings := {concat("", [e, "/"]) | some e in entries}

allowed(image) if repository(image) in entries

allowed(image) if strings.any_prefix_match(repository(image), beginnings)

images contains {"container": x, "image": object.get(x.is, "image", "")} if {
	judged
	some x in gpu.containers
}

# A volume can be an image as well.
images contains {"volume": v, "image": object.get(v.image, "reference", "")} if {
	judged
	some v in gpu.spec.volumes
	gpu.on(v.image)
}

where(i) := gpu.where(i.container)

where(i) := sprintf("volume %s", [gpu.show(i.volume.name)])

wrong(image) := "is no name of an image that can be read in one way only; write it as registry/repository:tag or with a digest" if {
	not well_formed(image)
} else := sprintf("is from none of %s; push it to one of these, or have yours added", [gpu.show(gpu.parameter("allowed", []))]) if {
	not allowed(image)
} else := "has no digest, so its content may change; write it as name@sha256:..." if {
	gpu.parameter("requireDigest", false) == true
	not regex.match(`@sha256:[a-f0-9]{64}$`, image)
}

violation contains {"msg": msg} if {
	some i in images
	why := wrong(i.image)
	msg := sprintf("%s, %s: image %s %s", [gpu.subject, where(i), gpu.show(i.image), why])
}

judged if {
	gpu.judged
	gpu.covers("gpu")
}
