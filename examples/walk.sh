#!/usr/bin/env bash
# The walk of the README and of docs/quick-start.md, from the first start to the ledger, with curl and
# with the commands. Each step is checked; the script ends with the first that is not as it should be.
#
#   examples/walk.sh                        uses target/release/punctual, or punctual of the PATH
#   PUNCTUAL=path/to/punctual examples/walk.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=${PUNCTUAL:-$root/target/release/punctual}
[ -x "$program" ] || program=$(command -v punctual) || {
  echo "there is no program; build it with: cargo build --release" >&2
  exit 1
}
unset PUNCTUAL_DATABASE PUNCTUAL_TOKEN
# Some jobs of the demonstration take long, and are not worth waiting for when it stops.
export PUNCTUAL__WORKER__SHUTDOWN_GRACE=1s

place=$(mktemp -d)
cd "$place"
"$program" dev --listen 127.0.0.1:0 >said 2>log &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$place"' EXIT

step() { printf '· %s\n' "$*"; }

fail() {
  printf 'not so: %s\n' "$*" >&2
  cat "$place/log" >&2
  exit 1
}

# Says whether a text has a part.
has() {
  case $1 in *"$2"*) ;; *) fail "no \`$2\` in: $1" ;; esac
}

# Runs a command again until its answer has a part.
until_has() {
  local part=$1 answer=
  shift
  for _ in $(seq 200); do
    answer=$("$@" 2>&1) || true
    case $answer in *"$part"*) return ;; esac
    sleep 0.1
  done
  fail "never \`$part\`, but: $answer"
}

# The value of a field in one line of JSON.
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }

step "it listens"
until_has "punctual listens on http://" cat said
PUNCTUAL_SERVER=$(sed -n 's/^punctual listens on \(http:[^,]*\),.*/\1/p' said)
export PUNCTUAL_SERVER
has "$(curl -fsS "$PUNCTUAL_SERVER/healthz/live")" ok

step "the schedules of the demonstration are there"
has "$("$program" schedule list)" "every 5 seconds"

step "what happens is watched"
"$program" events --follow --json --topics jobs >events &
watching=$!

step "a job is enqueued with the command, and waited for"
has "$("$program" job enqueue echo --payload '"hello"' --wait)" succeeded

step "another with curl, and the same request again makes no second one"
enqueue() {
  curl -fsS "$PUNCTUAL_SERVER/api/v1/jobs" -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: order-7' -d '{"kind": "echo", "payload": 1}'
}
job=$(enqueue | field id)
[ -n "$job" ] || fail "no id"
[ "$(enqueue | field id)" = "$job" ] || fail "the second request made another job"
has "$("$program" job wait "$job")" succeeded
has "$("$program" job list)" "$job"

step "one that is going to fail"
answer=$(curl -fsS "$PUNCTUAL_SERVER/api/v1/jobs" -H 'Content-Type: application/json' \
  -d '{"kind": "fail", "payload": {"message": "no luck", "for_good": true}}')
job=$(printf '%s' "$answer" | field id)
[ -n "$job" ] || fail "no id in: $answer"

step "it fails, and is seen to"
"$program" job wait "$job" >/dev/null 2>&1 && fail "job $job has not failed"
until_has "$job" cat events
kill "$watching"
wait "$watching" 2>/dev/null || true
has "$("$program" job list --state failed)" "$job"

step "why?"
has "$("$program" why job "$job")" "no luck"

step "it is tried again, and fails again"
has "$("$program" job retry "$job" --json)" "$job"
"$program" job wait "$job" >/dev/null 2>&1 && fail "job $job has not failed again"
has "$("$program" job show "$job")" "attempt 2"

step "all that failed is tried again with one command"
has "$("$program" job retry --all-matching 'state:failed kind:fail')" " done, 0 refused"
"$program" job wait "$job" >/dev/null 2>&1 && fail "job $job has not failed a third time"
has "$("$program" job show "$job")" "attempt 3"

step "a schedule is paused, and says why"
has "$("$program" schedule pause heartbeat --why 'too noisy')" "too noisy"
has "$("$program" why schedule heartbeat)" "too noisy"

step "it is resumed, and fires"
"$program" schedule resume heartbeat >/dev/null
until_has fired "$program" schedule slots heartbeat

step "each slot has an outcome"
until_has fired "$program" schedule slots slow-report

step "an expression says what it means"
has "$("$program" cron explain '0 8 * * MON-FRI' --tz Europe/Paris)" "at 08:00"

step "a schedule of one's own is made, looked at, run and held back"
has "$("$program" schedule create digest --cron '0 8 * * MON-FRI' --tz Europe/Paris --kind echo)" active
[ "$("$program" schedule next digest | wc -l)" = 10 ] || fail "there are not ten next slots"
ran=$("$program" schedule run digest --json | field job)
has "$("$program" job wait "$ran")" succeeded
has "$("$program" schedule pause digest --why 'on holiday')" "on holiday"
has "$("$program" schedule resume digest)" active
has "$("$program" schedule slots digest)" OUTCOME

step "why is the slow one skipped?"
has "$("$program" why schedule slow-report)" "schedule \`slow-report\`"

step "everything on one screen"
has "$("$program" top --once)" slow-report

step "is all well? whatever is not is a finding"
has "$("$program" doctor || true)" "looked at"

step "it stops when asked, and what it knows is kept"
kill "$server"
wait "$server" || fail "it did not stop cleanly"
unset PUNCTUAL_SERVER
has "$("$program" job show "$job" --database sqlite://punctual.db)" "no luck"

echo "all as it should be"
