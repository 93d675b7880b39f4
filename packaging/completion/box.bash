# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of box(1) for bash. Verbs and options are asked of box itself, so that they are never out of date.

_box_verbs() {
  box help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  *[A-Z].*/\1/p'
}

_box_options() {
  box help "$1" 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p'
}

# What an option takes for a value, as the help has it; nothing for a switch.
_box_value_of() {
  local option=${2//-/\\-}
  case $2 in
    --*) box help "$1" 2>/dev/null | sed -n "s/^  \(-., \|    \)$option \([^ ][^ ]*\).*/\2/p" ;;
    -?) box help "$1" 2>/dev/null | sed -n "s/^  $option, --[a-z-]* \([^ ][^ ]*\).*/\1/p" ;;
  esac
}

_box_sessions() {
  box ps -q 2>/dev/null
}

_box_processes() {
  box inspect "$1" 2>/dev/null | sed -n 's/.*"process_id": "\([^"]*\)".*/\1/p'
}

_box_reply() {
  local IFS=$'\n'
  mapfile -t COMPREPLY < <(compgen "$@")
}

# The words that are neither options nor their values, up to the cursor.
_box_words() {
  local verb=$1 i word
  words=()
  for ((i = 2; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      words+=("${COMP_WORDS[@]:i+1:COMP_CWORD-i-1}")
      closed=1
      return
    fi
    if [[ $word == -* && $word != - ]]; then
      [[ $word != *=* && -n $(_box_value_of "$verb" "$word") ]] && ((i++))
      continue
    fi
    words+=("$word")
  done
}

_box_value() {
  case $1 in
    off\|on | ro\|rw) _box_reply -W "${1//|/$'\n'}" -- "$2" ;;
    PROFILE) _box_reply -W $'default\nstrict\ndev' -- "$2" ;;
    FILE | PATH | DIR | SRC:*) _box_reply -f -- "$2" ;;
    SIG) _box_reply -W $'TERM\nINT\nHUP\nKILL\nUSR1\nUSR2\nSTOP\nCONT' -- "$2" ;;
    S | NAME) _box_reply -W "$(_box_sessions)" -- "$2" ;;
  esac
}

_box() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
  local words=() closed=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _box_reply -W "$(_box_verbs)" -- "$current"
    return
  fi
  local value=
  [[ $previous == -* ]] && value=$(_box_value_of "$verb" "$previous")
  if [[ -n $value ]]; then
    _box_value "$value" "$current"
    return
  fi
  _box_words "$verb"
  if [[ $current == -* && -z $closed ]]; then
    _box_reply -W "$(_box_options "$verb")" -- "$current"
    return
  fi
  case $verb in
    help) _box_reply -W "$(_box_verbs)" -- "$current" ;;
    run) if ((${#words[@]} == 0)); then _box_reply -c -- "$current"; else _box_reply -f -- "$current"; fi ;;
    rm) _box_reply -W "$(_box_sessions)" -- "$current" ;;
    cp)
      compopt -o nospace 2>/dev/null
      _box_reply -f -W "$(_box_sessions | sed 's/$/:\//')" -- "$current" ;;
    create | exec | shell | start | stop | kill | logs | inspect)
      case ${#words[@]} in
        0) _box_reply -W "$(_box_sessions)" -- "$current" ;;
        1)
          case $verb in
            stop | kill | logs | inspect) _box_reply -W "$(_box_processes "${words[0]}")" -- "$current" ;;
            exec | shell | start) _box_reply -c -- "$current" ;;
          esac
          ;;
        *) case $verb in exec | shell | start) _box_reply -f -- "$current" ;; esac ;;
      esac
      ;;
  esac
}

complete -o filenames -F _box box
