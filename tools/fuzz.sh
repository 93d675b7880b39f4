#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each fuzz target (or those named behind the build directory) for FUZZ_SECONDS (default 30), from the
# corpus beside it.
set -euo pipefail
build=$1
shift
seconds=${FUZZ_SECONDS:-30}
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(tests/fuzz/fuzz-*.c)

# What targets are made of: compiled once into an archive, from which each takes what it needs.
sources=(src/core/*.c src/sandbox/spec.c src/sandbox/net-policy.c src/init/messages.c src/net/*.c
  src/backend/spec.c src/runtime/*.c src/skills/*.c src/api/*.c src/daemon/config*.c)
libraries="-luv -lwslay -ljansson -lyaml -lzip -lm"
rm -rf "$build/objects"
mkdir -p "$build/objects"
printf '%s\n' -g -O1 -fno-sanitize-recover=all -std=gnu17 -D_GNU_SOURCE '-DBOX_VERSION=\"fuzz\"' -Isrc \
  >"$build/flags"
compile() {
  clang @"$build/flags" -fsanitize=fuzzer-no-link,address,undefined -c \
    -o "$build/objects/${1//\//-}.o" "$1"
}
export build libraries
export -f compile
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} bash -euc "compile {}"
rm -f "$build/libfuzzed.a"
ar rc "$build/libfuzzed.a" "$build"/objects/*.o

# One target on one processor. What it found is in its log, and the input that did it beside that.
fuzz() {
  local name log
  name=$(basename "$1" .c)
  log=$build/$name.log
  # shellcheck disable=SC2086 # words
  clang @"$build/flags" -fsanitize=fuzzer,address,undefined -o "$build/$name" "$1" \
    "$build/libfuzzed.a" $libraries
  local corpora=("$build/corpus-$name")
  mkdir -p "${corpora[0]}"
  [ ! -d "tests/fuzz/corpus/$name" ] || corpora+=("tests/fuzz/corpus/$name")
  "$build/$name" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -print_final_stats=0 \
    -artifact_prefix="$build/$name-" "${corpora[@]}" 2>"$log" || {
    printf '%s: FAILED\n%s\n' "$name" "$(tail -40 "$log")"
    return 1
  }
  echo "$name: $(tail -1 "$log")"
}
export seconds
export -f fuzz
echo "${#targets[@]} targets, $seconds s each, $(nproc) at a time"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -euc "fuzz {}"
