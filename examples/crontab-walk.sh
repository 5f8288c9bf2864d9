#!/usr/bin/env bash
# Runs the steps of docs/replace-your-crontab.md with a sample crontab in a temporary directory, and
# checks each one. It stops at the first step that fails. It does not read or change the crontab of
# this machine, and it does not need root.
#
#   examples/crontab-walk.sh                uses target/release/punctual, or punctual in PATH
#   PUNCTUAL=path/to/punctual examples/crontab-walk.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=${PUNCTUAL:-$root/target/release/punctual}
[ -x "$program" ] || program=$(command -v punctual) || {
  echo "punctual not found; build it with: cargo build --release" >&2
  exit 1
}
program=$(realpath "$program")
unset PUNCTUAL_DATABASE PUNCTUAL_SERVER PUNCTUAL_TOKEN

directory=$(mktemp -d)
cd "$directory"
: >log
server=
trap 'kill $server 2>/dev/null || true; wait; rm -rf "$directory"' EXIT

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

# Fails unless a command exits with a code. Its output, including stderr, is stored in $text.
code() {
  local expected=$1 actual=0
  shift
  text=$("$@" 2>&1) || actual=$?
  [ "$actual" = "$expected" ] || fail "exit code $actual instead of $expected: $* printed: $text"
}

# Repeats a command until its output contains a part, for at most 10 seconds.
until_has() {
  local part=$1 output=
  shift
  for _ in $(seq 100); do
    output=$("$@" 2>&1) || true
    case $output in *"$part"*) return ;; esac
    sleep 0.1
  done
  fail "\`$part\` not found after 10 seconds in: $output"
}

# Prints the value of a string field in one line of JSON.
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }

step "write a crontab; one line has a reversed range, one needs a directory that does not exist"
cat >backup.sh <<'END'
#!/bin/sh
echo "backup $1"
echo "$1" >target/backup.txt || exit 3
END
chmod +x backup.sh
cat >crontab.old <<END
MAILTO=ops@example.com
HOME=$directory
GREETING="hello world"
15 6 * * *           echo "\$GREETING" >> greeting.txt
30 2 * * *           $directory/backup.sh --full
@daily               cat %first line%second line
0 22-2 * * MON-FRI   echo night shift
END

step "check the crontab; the reversed range is an error"
code 1 "$program" cron check crontab.old
has "$text" "22-23,0-2"

step "correct the line and check again"
sed -i 's/22-2 /22-23,0-2 /' crontab.old
code 0 "$program" cron check crontab.old
has "$text" "4 schedules, 0 errors"

step "convert it to a schedule file"
code 0 "$program" import crontab crontab.old --user "$(id -un)" --tz Europe/Paris -o schedules.toml
has "$text" "Imported 4, skipped 0"

step "after an outage, run once; preview this with a simulated outage of three hours"
sed -i 's/^missed = "none"/missed = "latest"/; s/^overlap = "allow"/overlap = "skip"/' schedules.toml
code 0 "$program" simulate -f schedules.toml --from 2027-01-15T00:00:00Z --to 2027-01-15T12:00:00Z \
  --down 2027-01-15T01:00:00Z..2027-01-15T04:00:00Z
has "$text" caught_up

step "configure the server: imported lines are shell text with a user"
(umask 077; od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >token)
cat >punctual.toml <<END
[server]
token_file = "$directory/token"
[database]
url = "sqlite://$directory/punctual.db"
[command]
allow_api_argv = true
allow_shell = true
users = ["$(id -un)"]
END
code 0 "$program" config check --config punctual.toml

step "start the server on a free port"
NO_COLOR=1 "$program" serve --config punctual.toml --listen 127.0.0.1:0 >output 2>log &
server=$!
until_has "Listening on http://" cat output
PUNCTUAL_SERVER=$(sed -n 's/^Listening on \(http:[^ ]*\) .*/\1/p' output)
PUNCTUAL_TOKEN=$(cat token)
export PUNCTUAL_SERVER PUNCTUAL_TOKEN

step "compare, apply, compare again"
code 1 "$program" diff -f schedules.toml
has "$text" "4 to add"
code 0 "$program" apply -f schedules.toml
code 0 "$program" diff -f schedules.toml

step "run a schedule now and wait for its job"
greeting=$(grep -A 3 'echo "$GREETING"' schedules.toml | sed -n 's/^name = "\(.*\)"/\1/p')
job=$("$program" schedule run "$greeting" --json | field job)
code 0 "$program" job wait "$job"
has "$(cat greeting.txt)" "hello world"

step "run the backup; its job fails"
job=$("$program" schedule run backup --json | field job)
code 1 "$program" job wait "$job"

step "explain the failure: the exit code and the output"
has "$("$program" why job "$job")" "exited with code 3"
until_has "target/backup.txt" "$program" job logs "$job"

step "correct the command in the file, and apply it"
sed -i \
  "s|^argv = .*/backup.sh --full.*|argv = [\"mkdir -p target \&\& $directory/backup.sh --full\"]|" \
  schedules.toml
code 1 "$program" diff -f schedules.toml
has "$text" "1 to change"
code 0 "$program" apply -f schedules.toml

step "run the new command; it succeeds"
code 0 "$program" job wait "$("$program" schedule run backup --json | field job)"
has "$(cat target/backup.txt)" "--full"

step "retry the failed job; it keeps its old command, which now finds the directory"
code 0 "$program" job retry "$job"
code 0 "$program" job wait "$job"
has "$text" "attempt 2"

step "go back: delete the schedules of the set"
echo 'set = "crontab"' >empty.toml
code 0 "$program" apply -f empty.toml --prune
has "$text" "4 deleted"

step "stop the server; the jobs and their logs are kept"
kill "$server"
wait "$server" || fail "the server did not stop cleanly"
server=
unset PUNCTUAL_SERVER PUNCTUAL_TOKEN
has "$("$program" job logs "$job" --database "sqlite://$directory/punctual.db")" "backup --full"

echo "All steps passed."
