#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make run: starts the daemon that was just built and shows it at work, until ^C.
set -euo pipefail
build=$1
box=$build/box

# What is shown is to be this daemon, whatever others there are and BOX_URL says.
socket=$("$build/boxd" --print-config | sed -n 's/^socket: "\(.*\)"$/\1/p')
export BOX_URL=unix:$socket

if "$box" status >/dev/null 2>&1; then
  cat >&2 <<END
A boxd is running already, at $socket; no other one was started.
  fix: stop it first, or use it: $box ps
END
  exit 1
fi

"$build/boxd" &
daemon=$!
# ^C reaches boxd by itself, from the terminal, and a second one would hurry it; a plain kill is passed on.
interrupted=
trap '[[ $interrupted ]] || kill -INT "$daemon" 2>/dev/null || true; wait "$daemon" || true' EXIT
trap 'interrupted=yes; exit 130' INT
trap 'exit 143' TERM

for _ in {1..100}; do
  # First whether it lives: it may have said by now why it does not, and another one may answer.
  kill -0 "$daemon" 2>/dev/null || exit 1
  "$box" status >/dev/null 2>&1 && break
  sleep 0.05
done

bold='' plain=''
[[ -t 1 ]] && bold=$'\033[1m' plain=$'\033[0m'

show() {
  printf '\n%s$ box' "$bold"
  local word
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=-]+$ ]] && printf ' %s' "$word" || printf ' %s' "${word@Q}"
  done
  printf '%s\n' "$plain"
  "$box" "$@"
}

# shellcheck disable=SC2016 # to be expanded inside
show exec --create demo -- sh -c 'echo "Hello from $(uname -n), as $(id -un), process $$ of $(ls -d /proc/[0-9]* | wc -l)" | tee greeting'
show exec demo -- cat greeting
show exec demo -- sh -c 'touch /usr/oops; cat /etc/shadow' || echo "exit code $?"
show ps

cat <<END

boxd is running. From another terminal:

  $box exec demo -- python3 -c 'print(6 * 7)'
  $box shell demo
  curl -s 127.0.0.1:5410/v1/exec --json '{"session_id": "demo", "cmd": "uname -a"}'

^C ends it, and its sessions with it.
END
wait "$daemon"
