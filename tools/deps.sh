#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a target needs and that are missing, and says which.
set -euo pipefail

declare -A packages=(
  [build]="gcc libc6-dev make meson ninja-build pkg-config python3 musl-tools libjansson-dev
    libuv1-dev libwslay-dev libyaml-dev libzip-dev libseccomp-dev libmnl-dev libnftables-dev libsystemd-dev libcmocka-dev e2fsprogs"
  [test]="python3-pytest iproute2 nftables passt uidmap util-linux procps git python3-venv
    python3-pip curl python3-websockets python3-aiohttp"
  [load]="python3 perl-base util-linux strace faketime"
  [conformance]="python3-venv curl bubblewrap"
  [node]="nodejs npm"
  [bench]="bubblewrap runc docker.io busybox-static"
  [lint]="clang clang-format clang-tidy cppcheck mandoc shellcheck valgrind"
  [fuzz]="clang libclang-rt-14-dev"
)

missing=()
for package in ${packages[$1]}; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
    missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing Debian packages: ${missing[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
  as_root=(sudo)
  command -v sudo >/dev/null || {
    echo "They need root. As root: apt-get install ${missing[*]}" >&2
    exit 1
  }
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
