#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The unit tests once under AddressSanitizer and UndefinedBehaviorSanitizer, once under valgrind.
set -euo pipefail
build=$1

test -f "$build/build.ninja" || meson setup "$build" -Dsanitize=address,undefined -Dbuildtype=debug
meson compile -C "$build"
meson test -C "$build" --suite unit --print-errorlogs --timeout-multiplier 4

# box itself too: the caller's side and the spawner, which must start and end a sandbox without a complaint.
"$build/box" run -- sh -c 'echo sanitized'
"$build/box" run --json -- sh -c 'exit 3' >/dev/null || test $? = 3

plain=$build-valgrind
test -f "$plain/build.ninja" || meson setup "$plain" -Dbuildtype=debug
meson compile -C "$plain"
# Real kernels' answers are the business of the ordinary run; valgrind checks memory in what is pure.
for name in core spec plan cli; do
  valgrind --quiet --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite \
    "$plain/tests/test-$name" >/dev/null
  echo "valgrind: $name clean"
done
