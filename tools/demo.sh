#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make run: shows what a sandbox is, on this machine, with the program that was just built.
set -euo pipefail
box=$1/box

show() {
  printf '\n\033[1m$ box'
  local word
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=-]+$ ]] && printf ' %s' "$word" || printf ' %s' "${word@Q}"
  done
  printf '\033[0m\n'
  "$box" "$@"
}

# shellcheck disable=SC2016 # to be expanded inside
show run -- sh -c 'echo "Hello from $(uname -n), as $(id -un), process $$ of $(ls -d /proc/[0-9]* | wc -l)"'
show run -- python3 -c 'print(6 * 7)'
show run --memory 64M -- python3 -c 'x = bytearray(10**9)' || echo "exit code $?"
show run -- sh -c 'touch /usr/oops; cat /etc/shadow; unshare -U true' || echo "exit code $?"
show run --timeout 1 -- sleep 60 || echo "exit code $?"

cat <<END

That was a sandbox each time: made, used and gone. What this machine can do: $box doctor
END
