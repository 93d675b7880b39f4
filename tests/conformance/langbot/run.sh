#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# LangBot's own clients before boxd: three generations of them, each in a virtual environment of its own, all at once.
# usage: run.sh BUILD TOOLS install|clients|differential [PYTEST ARGUMENT…]
#
# install         only the virtual environments
# clients         the tests in this directory
# differential    those in differential/: the same calls to boxd and to LangBot's runtime
#
# LANGBOT_VERSIONS    only these versions
# LANGBOT_SERVER      boxd, or python: LangBot's runtime of the same version, which the clients' tests must pass with too
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
tools=$(cd "$2" && pwd)
suite=$3
shift 3
read -ra versions <<<"${LANGBOT_VERSIONS:-0.4.2 0.4.17 0.5.5}"
python=/usr/bin/python3

# install VERSION: once, and again when what is wanted has changed
install() {
  local venv=$tools/langbot-$1 log=$tools/langbot-$1.install wanted
  wanted=$(cat "$here/requirements.txt" && echo "langbot-plugin==$1")
  [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ] || return 0
  echo "Installing langbot-plugin $1 from PyPI"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/pip" install --disable-pip-version-check --constraint "$here/requirements.txt" \
    "langbot-plugin==$1" mcp pytest >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    echo "conformance: cannot install langbot-plugin $1: is PyPI out of reach? See $log" >&2
    return 1
  }
  echo "$wanted" >"$venv/wanted"
}

# In a directory of its own, for LangBot's handler makes others where it is started.
run() {
  local venv=$tools/langbot-$1 log=$tools/$suite-$1.log work rc=0 where
  shift
  case $suite in
  clients) where=(--rootdir "$here" -p harness --ignore "$here/differential" "$here") ;;
  differential) where=(--rootdir "$here/differential" "$here/differential") ;;
  esac
  work=$(mktemp -d)
  (cd "$work" && BOX_BUILD=$build LANGBOT_TOOLS=$tools PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=$here:$here/../../integration "$venv/bin/python" -m pytest -p no:cacheprovider -q -rs --tb short \
    --durations 5 "${where[@]}" "$@") >"$log" 2>&1 || rc=$?
  rm -rf "$work"
  return "$rc"
}

jobs=()
for version in "${versions[@]}"; do
  install "$version" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do
  wait "$job" || exit 1
done
[ "$suite" != install ] || exit 0

jobs=()
for version in "${versions[@]}"; do
  run "$version" "$@" &
  jobs+=($!)
done
failed=0
for i in "${!versions[@]}"; do
  log=$tools/$suite-${versions[i]}.log
  if ! wait "${jobs[i]}"; then
    failed=1
    if grep -q '^=.* \(FAILURES\|ERRORS\) =' "$log"; then
      sed -n '/^=.* \(FAILURES\|ERRORS\) =/,/^=.* slowest /p' "$log" | sed -n 1,200p
    else
      tail -n 5 "$log"
    fi
    echo "conformance: see $log"
  fi
  echo "$suite, langbot-plugin ${versions[i]}: $(tail -n 1 "$log")"
done
exit "$failed"
