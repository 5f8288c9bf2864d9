#!/usr/bin/env bash
# Runs the steps of the README and of docs/quick-start.md, with curl and with the command line, and
# checks each one. It stops at the first step that fails.
#
#   examples/walk.sh                        uses target/release/punctual, or punctual in PATH
#   PUNCTUAL=path/to/punctual examples/walk.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=${PUNCTUAL:-$root/target/release/punctual}
[ -x "$program" ] || program=$(command -v punctual) || {
  echo "punctual not found; build it with: cargo build --release" >&2
  exit 1
}
program=$(realpath "$program")
unset PUNCTUAL_DATABASE PUNCTUAL_TOKEN
# Some sample jobs run for a long time; do not wait for them at shutdown.
export PUNCTUAL__WORKER__SHUTDOWN_GRACE=1s

directory=$(mktemp -d)
cd "$directory"
"$program" dev --listen 127.0.0.1:0 >output 2>log &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$directory"' EXIT

step() { printf '· %s\n' "$*"; }

fail() {
  printf 'failed: %s\n' "$*" >&2
  cat "$directory/log" >&2
  exit 1
}

# Fails unless a text contains a part.
has() {
  case $1 in *"$2"*) ;; *) fail "\`$2\` not found in: $1" ;; esac
}

# Repeats a command until its output contains a part, for at most 20 seconds.
until_has() {
  local part=$1 text=
  shift
  for _ in $(seq 200); do
    text=$("$@" 2>&1) || true
    case $text in *"$part"*) return ;; esac
    sleep 0.1
  done
  fail "\`$part\` not found after 20 seconds in: $text"
}

# Prints the value of a string field in one line of JSON.
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }

step "start the demo server"
until_has "Listening on http://" cat output
PUNCTUAL_SERVER=$(sed -n 's/^Listening on \(http:[^ ]*\) .*/\1/p' output)
export PUNCTUAL_SERVER
has "$(curl -fsS "$PUNCTUAL_SERVER/healthz/live")" ok

step "list the sample schedules"
has "$("$program" schedule list)" "every 5 seconds"

step "stream job events"
"$program" events --follow --json --topics jobs >events &
watching=$!

step "enqueue a job on the command line and wait for it"
has "$("$program" job enqueue echo --payload '"hello"' --wait)" succeeded

step "enqueue a job with curl; the repeated request creates no second job"
enqueue() {
  curl -fsS "$PUNCTUAL_SERVER/api/v1/jobs" -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: order-7' -d '{"kind": "echo", "payload": 1}'
}
job=$(enqueue | field id)
[ -n "$job" ] || fail "the response has no job id"
[ "$(enqueue | field id)" = "$job" ] || fail "the second request created another job"
has "$("$program" job wait "$job")" succeeded
has "$("$program" job list)" "$job"

step "enqueue a job that fails"
response=$(curl -fsS "$PUNCTUAL_SERVER/api/v1/jobs" -H 'Content-Type: application/json' \
  -d '{"kind": "fail", "payload": {"message": "no luck", "permanent": true}}')
job=$(printf '%s' "$response" | field id)
[ -n "$job" ] || fail "no job id in: $response"

step "wait for it, and find it in the events and in the list of failed jobs"
"$program" job wait "$job" >/dev/null 2>&1 && fail "job $job did not fail"
until_has "$job" cat events
kill "$watching"
wait "$watching" 2>/dev/null || true
has "$("$program" job list --state failed)" "$job"

step "explain the failure"
has "$("$program" why job "$job")" "no luck"

step "retry the job; it fails again"
has "$("$program" job retry "$job" --json)" "$job"
"$program" job wait "$job" >/dev/null 2>&1 && fail "job $job did not fail again"
has "$("$program" job show "$job")" "attempt 2"

step "retry all matching failed jobs"
has "$("$program" job retry --all-matching 'state:failed kind:fail')" ", skipped 0"
"$program" job wait "$job" >/dev/null 2>&1 && fail "job $job did not fail a third time"
has "$("$program" job show "$job")" "attempt 3"

step "pause a schedule with a reason"
has "$("$program" schedule pause heartbeat --why 'too noisy')" "too noisy"
has "$("$program" why schedule heartbeat)" "too noisy"

step "resume it; it fires"
"$program" schedule resume heartbeat >/dev/null
until_has fired "$program" schedule slots heartbeat

step "show the outcome of each slot"
until_has fired "$program" schedule slots slow-report

step "explain an expression"
has "$("$program" cron explain '0 8 * * MON-FRI' --tz Europe/Paris)" "at 08:00"

step "create, preview, run, pause and resume a schedule"
has "$("$program" schedule create digest --cron '0 8 * * MON-FRI' --tz Europe/Paris --kind echo)" active
[ "$("$program" schedule next digest | wc -l)" = 10 ] || fail "schedule next does not print 10 slots"
created=$("$program" schedule run digest --json | field job)
has "$("$program" job wait "$created")" succeeded
has "$("$program" schedule pause digest --why 'on holiday')" "on holiday"
has "$("$program" schedule resume digest)" active
has "$("$program" schedule slots digest)" OUTCOME

step "explain why slots of slow-report are skipped"
has "$("$program" why schedule slow-report)" "schedule \`slow-report\`"

step "print the overview"
has "$("$program" top --once)" slow-report

step "check the installation"
has "$("$program" doctor || true)" "checked: "

step "stop the server; the data is kept"
kill "$server"
wait "$server" || fail "the server did not stop cleanly"
unset PUNCTUAL_SERVER
has "$("$program" job show "$job" --database sqlite://punctual.db)" "no luck"

echo "All steps passed."
