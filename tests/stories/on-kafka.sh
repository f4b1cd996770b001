#!/bin/bash
# on-kafka.sh [PORT] [files or folders]: runs the stories against a real Apache Kafka, started (and ended) here once for each set of
# broker settings that they ask for. Exit status 1 when a story differs. WORK: where the data directories go (default: a temporary one).
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
port=${1:-29092}
shift || true
[ $# -gt 0 ] || set -- "$here"/../../conform/stories/[!r]*
work=${WORK:-$(mktemp -d)}
status=0 pid=
trap '[ -z "$pid" ] || kill "$pid"' EXIT
run() {
  local name=$1; shift
  "$here/../kafka/run-kafka.sh" "$port" "$work/$name" offsets.topic.num.partitions=10 transaction.state.log.num.partitions=3 \
    group.min.session.timeout.ms=100 "$@" > "$work/$name.log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
  (cd "$here/../.." && "${PYTHON:-python3}" -m muster.conform.run_stories "127.0.0.1:$port" "${files[@]}") || status=1
  kill "$pid"; wait "$pid" 2> /dev/null
  pid=
}
files=()
for file in "$@"; do files+=("$(realpath "$file")"); done
"$here/../kafka/fetch-jars.sh" > /dev/null
mkdir -p "$work"
run no-delay group.initial.rebalance.delay.ms=0 group.consumer.assignment.interval.ms=0 group.share.assignment.interval.ms=0 \
  transaction.abort.timed.out.transaction.cleanup.interval.ms=100
soon="group.initial.rebalance.delay.ms=0 group.consumer.assignment.interval.ms=0"
run no-upgrade $soon group.consumer.migration.policy=downgrade group.consumer.session.timeout.ms=1500 \
  group.consumer.min.session.timeout.ms=1000 group.consumer.heartbeat.interval.ms=500 group.consumer.min.heartbeat.interval.ms=100
run no-downgrade $soon group.consumer.migration.policy=upgrade group.consumer.max.size=3
run no-migration $soon group.consumer.migration.policy=disabled
run share-session group.share.assignment.interval.ms=0 group.share.max.size=2 group.share.session.timeout.ms=1500 \
  group.share.min.session.timeout.ms=1000 group.share.heartbeat.interval.ms=500 group.share.min.heartbeat.interval.ms=100
quick="group.streams.assignment.interval.ms=0 group.streams.initial.rebalance.delay.ms=0"
run streams $quick group.initial.rebalance.delay.ms=0
run streams-standby $quick group.streams.num.standby.replicas=1
run streams-delay group.streams.assignment.interval.ms=0 group.streams.initial.rebalance.delay.ms=1000
run streams-interval group.streams.assignment.interval.ms=700 group.streams.initial.rebalance.delay.ms=0
run streams-full $quick group.streams.max.size=2
run streams-tags $quick group.streams.rack.aware.assignment.tags=zone,rack
run streams-session $quick group.streams.min.session.timeout.ms=1000 group.streams.session.timeout.ms=1000 \
  group.streams.min.heartbeat.interval.ms=100 group.streams.heartbeat.interval.ms=300
run delay group.initial.rebalance.delay.ms=600
run two-members group.initial.rebalance.delay.ms=0 group.max.size=2
exit $status
