#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make conformance: a real boxd before clients and checkers that were not written for it. What comes from npm and
# PyPI is installed below the build directory. usage: run.sh BUILD [LANE…]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
lanes=("$@")
[ ${#lanes[@]} -gt 0 ] || lanes=(handshake websocket ws langbot differential schemathesis)
tools=$build/conformance
python=/usr/bin/python3
fuzz_seconds=${CONFORMANCE_SECONDS:-75}
mkdir -p "$tools"

give_up() {
  echo "conformance: $*" >&2
  exit 1
}

# install WHAT WHERE-FROM STAMP COMMAND…: once, and again when what is wanted has changed
install() {
  local what=$1 from=$2 stamp=$tools/$3
  shift 3
  ! cmp -s "$stamp" "$here/${stamp##*/}" || return 0
  echo "Installing $what from $from"
  "$@" >"$tools/install.log" 2>&1 || {
    tail -n 5 "$tools/install.log" >&2
    give_up "cannot install $what: is $from out of reach? See $tools/install.log"
  }
  cp "$here/${stamp##*/}" "$stamp"
}

install_node() {
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    "$here/../../tools/deps.sh" node
  fi
  # The stamp is written when it worked; npm reads its own copy.
  mkdir -p "$tools/node"
  cp "$here/package.json" "$tools/node/"
  npm install --prefix "$tools/node" --ignore-scripts --no-audit --no-fund --no-package-lock
}

install_schemathesis() {
  rm -rf "$tools/venv"
  "$python" -m venv "$tools/venv"
  "$tools/venv/bin/pip" install --disable-pip-version-check --requirement "$here/requirements.txt"
}

# --- boxd ---

work=$(mktemp -d)
chmod 711 "$work" # its front is not root
daemon=
stop() {
  [ -z "$daemon" ] || kill -INT "$daemon" 2>/dev/null || true
  [ -z "$daemon" ] || wait "$daemon" || true
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_boxd() {
  port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  printf 'box:\n  limits:\n    max_sessions: 1000\n' >"$work/boxd.yaml"
  "$build/boxd" --config "$work/boxd.yaml" --listen "127.0.0.1:$port" --socket "$work/boxd.sock" \
    --run-dir "$work/run" --state-dir "$work/state" --log-level warn >/dev/null 2>"$work/log" &
  daemon=$!
  for _ in {1..100}; do
    curl --silent --fail --output /dev/null "http://127.0.0.1:$port/readyz" && return
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.05
  done
  cat "$work/log" >&2
  give_up "boxd does not start"
}

# --- lanes ---

lane_handshake() {
  "$python" "$here/handshake_cases.py" "$port"
}

lane_websocket() {
  "$python" "$here/websocket_cases.py" "$port"
}

lane_ws() {
  install "Node's packages" "the npm registry" package.json install_node
  (cd "$tools/node" && node "$here/ws.mjs" "$port" "$work/boxd.sock")
}

# LangBot's clients start boxds of their own, with other settings than this one's. Node's packages are for MCP.
lane_langbot() {
  install "Node's packages" "the npm registry" package.json install_node
  "$here/langbot/run.sh" "$build" "$tools" clients
}

lane_differential() {
  "$here/langbot/run.sh" "$build" "$tools" differential
}

# WebSockets are not HTTP calls, and events go on for ever. One worker: Debian's Python trips over itself with more.
lane_schemathesis() {
  install "schemathesis" "PyPI" requirements.txt install_schemathesis
  export BOXD_URL=http://127.0.0.1:$port SCHEMATHESIS_HOOKS=schemathesis_hooks PYTHONPATH=$here
  export PYTHONDONTWRITEBYTECODE=1
  (cd "$work" && "$tools/venv/bin/st" run "$BOXD_URL/openapi.json" --phases coverage,fuzzing --mode all \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance \
    --checks response_schema_conformance,unsupported_method,allow_header_conformance,negative_data_rejection \
    --exclude-path-regex '/ws$' --exclude-path /v1/events --max-examples 30 --max-time "$fuzz_seconds" \
    --seed "${CONFORMANCE_SEED:-1}" --request-timeout 20 --workers 1 --continue-on-failure --suppress-health-check all --warnings off \
    --no-color) >"$tools/schemathesis.log" 2>&1 && rc=0 || rc=$?
  [ "$rc" = 0 ] || sed -n '/^==.* \(FAILURES\|ERRORS\) ==/,$p' "$tools/schemathesis.log"
  grep -A1 '^Test cases:' "$tools/schemathesis.log" | sed -n 's/^ */schemathesis: /;$p'
  return "$rc"
}

start_boxd
failed=()
for lane in "${lanes[@]}"; do
  "lane_$lane" || failed+=("$lane")
  kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; give_up "boxd has died in lane $lane"; }
done
if [ -s "$work/log" ]; then
  echo "boxd said:"
  tail -n 20 "$work/log"
fi
echo "conformance: $((${#lanes[@]} - ${#failed[@]})) lanes passed, ${#failed[@]} failed${failed[*]:+ (${failed[*]})}"
[ ${#failed[@]} = 0 ]
