#!/bin/bash
# A pod whose root is an OCI bundle of the operator's, not the machine's own folders.
source "$(dirname "$0")/lib.sh"
bundle=$work/images/box
mkdir -p "$bundle/rootfs/bin" "$bundle/rootfs/greetings"
for program in sh cat ls id touch; do
	cp "$(command -v $program)" "$bundle/rootfs/bin/"
	ldd "$(command -v $program)" | grep -o '/[^ ]*' | while read -r lib; do
		mkdir -p "$bundle/rootfs$(dirname "$lib")" && cp -L "$lib" "$bundle/rootfs$lib"
	done
done
echo "hello from the bundle" >"$bundle/rootfs/greetings/hello"
echo '{"ociVersion":"1.0.0","process":{"args":["/bin/cat","/greetings/hello"],"env":["COLOUR=green","PATH=/bin"],"cwd":"/greetings"},"root":{"path":"rootfs"}}' >"$bundle/config.json"
chmod -R go+rX "$work/images"

platform_up --simulate 1xH200 --images "$work/images"
kubectl apply -f tenants.yaml >/dev/null
kubectl wait --for=condition=Ready --timeout=20s tenant/team-a >/dev/null
box() { "$RINGFENCE" run -n team-a --rm --image box "$@"; }

says "a program of the bundle runs" "hello from the bundle" box -- /bin/cat /greetings/hello
says "in the bundle's folder, with its environment" "/greetings green" box -- /bin/sh -c 'echo "$PWD $COLOUR"'
says "the machine's own folders are not there" "No such file" box -- /bin/ls /usr/bin/kubectl
refuses "the bundle cannot be written" "Read-only file system" box -- /bin/touch /greetings/x
says "as a plain user" "uid=65534" box -- /bin/id
sed -e 's/image: host/image: box/' -e '/command:/d' -e 's/namespace: bank/namespace: team-a/' -e '/ringfence.io\/gpu/d' -e '/limits:/d' -e '/resources:/d' train.yaml | kubectl apply -f - >/dev/null
check "a pod without a command ends well" eventually 20 phase_is team-a train Succeeded
says "having run the bundle's own" "hello from the bundle" kubectl -n team-a logs train
says "a share works under it" "nvidia0" box --memory 1Gi -- /bin/ls /ringfence/dev
"$RINGFENCE" run -d -n team-a --name lost --image nosuch -- /bin/sh >/dev/null
check "an image that is not there is told" eventually 10 bash -c "'$RINGFENCE' why team-a/lost | grep -i nosuch"
"$RINGFENCE" run -d -n team-a --name climber --image ../images/box -- /bin/sh >/dev/null
check "nobody climbs out of the folder" eventually 10 phase_is team-a climber Failed
says "and the reason names the image" "../images/box" "$RINGFENCE" why team-a/climber
done_testing
