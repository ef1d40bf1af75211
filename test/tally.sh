# Counts what TAP programs say. Sourced by test/run and test/kubernetes/e2e.
passed=0 failed=0 skipped=0 failures=()

# tally NAME STATUS LOG: counts the TAP lines; a program that dies without saying so has failed.
tally() {
	local name=$1 status=$2 log=$3 ok not skip
	skip=$(grep -c '^\(not \)\?ok .*# SKIP' "$log") # cmocka says "not ok" of what it skips
	ok=$(grep '^ok ' "$log" | grep -vc '# SKIP')
	not=$(grep '^not ok ' "$log" | grep -vc '# SKIP')
	if ((not == 0 && (status != 0 || ok + skip == 0))); then
		not=1
		echo "not ok - $name ended with status $status" >>"$log"
	fi
	((passed += ok, failed += not, skipped += skip))
	printf '%-34s %4d passed' "$name" "$ok"
	((skip)) && printf ', %d skipped' "$skip"
	((not)) && printf ', %d FAILED' "$not" && failures+=("$log")
	printf '  (%ss)\n' "$SECONDS"
	((skip)) && grep '^\(not \)\?ok .*# SKIP' "$log" | sed 's/^/    /'
}

# The logs of what failed, and the closing line; the status says whether all is well.
close_tally() {
	local log
	for log in "${failures[@]:-}"; do
		[[ -n $log ]] || continue
		echo
		echo "=== $log"
		tail -n 60 "$log"
	done
	echo
	((skipped)) && echo "$skipped skipped, by name above"
	echo "$passed passed, $failed failed"
	((failed == 0 && passed > 0))
}
