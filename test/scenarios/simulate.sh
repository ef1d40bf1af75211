#!/bin/bash
# ringfence simulate: pods to be packed, jobs over time, logs, what-if and plots, without a platform.
source "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
case $RINGFENCE in /*) ;; *) RINGFENCE=$root/$RINGFENCE ;; esac

cat >nodes.csv <<-END
	sn,cpu_milli,memory_mib,gpu,model
	a,64000,262144,4,T4
	b,64000,262144,8,V100
END
cat >pods.csv <<-END
	name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
	p0,4000,8192,1,1000,
	p1,2000,4096,1,300,T4
	p2,16000,65536,2,1000,V100
END
{
	echo timestamp,duration,num_gpus,gpu_time,cluster
	for i in $(seq 0 99); do
		printf '2017-10-09 %02d:%02d:00,%d,%d,0,%s\n' $((i / 50)) $((i % 50)) $((600 + i * 37 % 1800)) \
			$((1 << i * 7 % 5)) "$( ((i % 3)) && echo team-a || echo '<script>alert(1)</script>')"
	done
} >jobs.csv
# figure FILE EXPRESSION: a figure from the JSON of a run.
figure() { python3 -c 'import json,sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"; }
simulate() { "$RINGFENCE" simulate "$@"; }

says "pods are packed" "GPU %" simulate --nodes nodes.csv --pods pods.csv
check "their figures are JSON" bash -c "'$RINGFENCE' simulate --nodes nodes.csv --pods pods.csv -o json >pods.json"
check "  with the allocation" test "$(figure pods.json '0 < d[0]["gpuAllocation"] <= 100 and d[0]["pods"] > 0')" = True

check "jobs run over time" bash -c "'$RINGFENCE' simulate --nodes 2x8 --pods jobs.csv --record day.log --plot plot.html -o json >jobs.json"
check "  all of them" test "$(figure jobs.json 'd[0]["jobs"] == d[0]["started"] == d[0]["waits"]["jobs"] == 100')" = True
check "  by size and by tenant" test "$(figure jobs.json 'sum(s["waits"]["jobs"] for s in d[0]["sizes"]) == sum(t["waits"]["jobs"] for t in d[0]["tenants"]) == 100')" = True
check "  and shares add up" test "$(figure jobs.json 'abs(sum(t["share"] for t in d[0]["tenants"]) - 100) < 0.1')" = True
check "the plot is a page" grep -q "</svg>" plot.html
check "  in which names are text" bash -c "! grep -q '<script' plot.html && grep -q 'script&#62;alert' plot.html"
check "the table is for people" bash -c "'$RINGFENCE' simulate --nodes 2x8 --pods jobs.csv | grep -q '^team-a'"
check "the same again" bash -c "'$RINGFENCE' simulate --nodes 2x8 --pods jobs.csv --record again.log -o json >again.json && cmp day.log again.log"
check "first come, first served" bash -c "'$RINGFENCE' simulate --nodes 2x8 --pods jobs.csv --policy fifo -o json >fifo.json"
check "  runs the same work" test "$(figure fifo.json 'd[0]["started"]')" = 100

check "a log is replayed without a difference" bash -c "'$RINGFENCE' simulate --log day.log -o json >log.json"
check "  to the same figures" test "$(figure log.json 'd[0]["differences"] == 0 and d[0]["loggedDecisions"] >= 100 and [d[0][k] for k in ("jobs", "gpuAllocation", "waits", "sizes")]')" = \
	"$(figure jobs.json '[d[0][k] for k in ("jobs", "gpuAllocation", "waits", "sizes")]')"
sed '0,/"bind":/s/"node":"n0000[01]"/"node":"n00009"/' day.log >other.log
refuses "machines that are none say how to write them" "COUNTxCARDS such as 48x8" "$RINGFENCE" simulate --nodes 48 --pods nosuch.csv
refuses "a decision that was another is shown" "1 differences" simulate --log other.log
says "  with its line" "n00009" simulate --log other.log
echo '{"t":1,"put":"pot"}' >>other.log
refuses "a line that makes no sense is named" 'there is no kind "pot"' simulate --log other.log

check "what if there were more machines" bash -c "'$RINGFENCE' simulate --nodes 2x8 --pods jobs.csv --what-if 'nodes+=20:h100x8,weight:team-a=3' --plot plot.svg -o json >what.json"
check "  nobody would wait" test "$(figure what.json 'd[0]["waits"]["mean"] > 0 and d[1]["waits"]["max"]')" = 0.0
check "  and both are drawn" grep -q "what-if" plot.svg
check "what if, on a log" bash -c "'$RINGFENCE' simulate --log day.log --what-if nodes+=20x8 -o json >logwhat.json"
check "  nobody would wait" test "$(figure logwhat.json 'd[0]["waits"]["mean"] > 0 and d[1]["waits"]["max"]')" = 0.0

refuses "files are asked for" "--nodes and --pods" simulate --nodes 2x8
refuses "machines that make no sense are explained" "such as 48x8" simulate --nodes 0x8 --pods jobs.csv
refuses "a change that makes no sense says what is allowed" "weight:TENANT=N" simulate --nodes 2x8 --pods jobs.csv --what-if colour=red
refuses "a tenant that is not there is named" 'no tenant "nobody"' simulate --nodes 2x8 --pods jobs.csv --what-if weight:nobody=2
refuses "a resource that is not there is named" "bananas" simulate --nodes 2x8 --pods jobs.csv --what-if limit:team-a:bananas=2
refuses "a plot is SVG or HTML" ".svg or .html" simulate --nodes 2x8 --pods jobs.csv --plot plot.png
refuses "an unknown policy is refused" "one of fgd" simulate --nodes 2x8 --pods jobs.csv --policy best
refuses "first come, first served knows no weights" "only add nodes" simulate --nodes 2x8 --pods jobs.csv --policy fifo --what-if weight:team-a=2
refuses "pods without times have no what-if" "pods without times" simulate --nodes nodes.csv --pods pods.csv --what-if nodes+=1x8
sed 's/2017-10-09 00:01:00/yesterday/' jobs.csv >bad.csv
refuses "a bad line is named" "line 3: timestamp" simulate --nodes 2x8 --pods bad.csv
done_testing
