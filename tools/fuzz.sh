#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each fuzz target for FUZZ_SECONDS (default 30), from the corpus beside it.
set -euo pipefail
build=$1
seconds=${FUZZ_SECONDS:-30}
mkdir -p "$build"
for source in tests/fuzz/fuzz-*.c; do
  name=$(basename "$source" .c)
  echo "$name: $seconds s"
  clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -std=gnu17 \
    -D_GNU_SOURCE -Isrc -o "$build/$name" "$source" \
    src/core/*.c src/sandbox/spec.c src/sandbox/net-policy.c src/init/messages.c
  corpora=("$build/corpus-$name")
  mkdir -p "${corpora[0]}"
  [ ! -d "tests/fuzz/corpus/$name" ] || corpora+=("tests/fuzz/corpus/$name")
  "$build/$name" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -print_final_stats=0 \
    -artifact_prefix="$build/" "${corpora[@]}" \
    2>"$build/$name.log" || { tail -40 "$build/$name.log"; exit 1; }
  tail -1 "$build/$name.log"
done
