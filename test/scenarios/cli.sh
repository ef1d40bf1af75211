#!/bin/bash
# The command line by itself: help, completion, errors, and a simulated machine without a platform.
source "$(dirname "$0")/lib.sh"
unset KUBECONFIG
cd "$root" || exit 1
case $RINGFENCE in /*) ;; *) RINGFENCE=$root/$RINGFENCE ;; esac

for verb in up tenant run ps gpus why queue sim fence apiserver control node version completion; do
	says "$verb has help" "Usage: ringfence $verb" "$RINGFENCE" "$verb" --help
done
says "help lists the verbs" "Start with: ringfence up" "$RINGFENCE" --help
refuses "an unknown verb is named" 'no verb "frobnicate"' "$RINGFENCE" frobnicate
refuses "an unknown option is named" "gpus has no option --frob" "$RINGFENCE" gpus --frob
refuses "a missing value is asked for" "--data needs a value" "$RINGFENCE" up --data
refuses "a log of events in no folder is explained" "its folder" "$RINGFENCE" up --data "$work/x" --event-log "$work/no/such"
refuses "a bad address is explained" "is not an address" "$RINGFENCE" up --data "$work/x" --listen nowhere
refuses "no platform: says what to do" "ringfence up" "$RINGFENCE" gpus --kubeconfig "$work/none"
says "version as JSON" '"version":' "$RINGFENCE" version -o json
refuses "an unknown output format is refused" "json or table" "$RINGFENCE" version -o xml
check "bash can load the completion" bash -c "source <('$RINGFENCE' completion bash) && complete -p ringfence"
says "the completion knows the verbs" tenant bash -c "source <('$RINGFENCE' completion bash); COMP_WORDS=(ringfence te) COMP_CWORD=1; _ringfence; echo \"\${COMPREPLY[@]}\""
says "the manual page is roff" ".TH RINGFENCE 1" "$RINGFENCE" man

refuses "unknown card models are named with the known ones" "H200" "$RINGFENCE" sim run --cards 2xZ9 -- true
says "a program sees a simulated machine" "NVIDIA H200" "$RINGFENCE" sim run --cards 2xH200 -- "$(dirname "$RINGFENCE")/gpu-demo" --info
says "another model, another card" "NVIDIA A100" "$RINGFENCE" sim run --cards 1xA100 -- "$(dirname "$RINGFENCE")/gpu-demo" --info
refuses "memory really runs out" "CUDA_ERROR_OUT_OF_MEMORY" "$RINGFENCE" sim run --cards 1xT4 -- "$(dirname "$RINGFENCE")/gpu-demo" --memory 40Gi
check "sim run gives back the program's exit status" bash -c "'$RINGFENCE' sim run --cards 1xT4 -- sh -c 'exit 7'; test \$? = 7"
done_testing
