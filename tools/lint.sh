#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting, static analysis, warnings as errors with both compilers, shell scripts and manual pages.
set -euo pipefail
build=$1
mapfile -t sources < <(git ls-files 'src/*.c' 'tests/*.c' 'tools/*.c')
mapfile -t headers < <(git ls-files 'src/*.h' 'tests/*.h')

echo "clang-format"
clang-format --dry-run --Werror "${sources[@]}" "${headers[@]}"

echo "gcc and clang, warnings as errors"
for compiler in gcc clang; do
  rm -rf build-lint
  CC=$compiler meson setup build-lint -Dwerror=true >/dev/null
  ninja -C build-lint >build-lint/log || { cat build-lint/log; exit 1; }
done

# Over the compile commands of the clang build; box-init is compiled with musl's headers, so it is not there.
echo "clang-tidy"
mapfile -t checked < <(git ls-files 'src/*.c' ':!src/init')
printf '%s\n' "${checked[@]}" | xargs -P "$(nproc)" -n 8 clang-tidy -p build-lint --quiet \
  --warnings-as-errors='*' 2>/dev/null
rm -rf build-lint

echo "cppcheck"
cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,portability \
  --suppressions-list=tools/cppcheck.suppressions -D_GNU_SOURCE -D__x86_64__ \
  -Isrc -I"$build" -j "$(nproc)" src tools

echo "shellcheck"
mapfile -t scripts < <(git ls-files -z ':!tests/fuzz/corpus' | xargs -0 grep -lE '^#!.*(ba)?sh$')
shellcheck "${scripts[@]}"

echo "mandoc"
mandoc -T lint -W warning man/*.[158]
echo "lint: clean"
