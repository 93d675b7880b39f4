# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of box(1) for bash. Verbs and options are asked of box itself, so that they are never out of date.

# Those below a verb, if one is named. A verb that is below another is two words here: "skill ls".
# shellcheck disable=SC2086
_box_verbs() {
  box help $1 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  *[A-Z].*/\1/p'
}

# shellcheck disable=SC2086
_box_options() {
  box help $1 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p'
}

# What an option takes for a value, as the help has it; nothing for a switch.
# shellcheck disable=SC2086
_box_value_of() {
  local option=${2//-/\\-}
  case $2 in
    --*) box help $1 2>/dev/null | sed -n "s/^  \(-., \|    \)$option \([^ ][^ ]*\).*/\2/p" ;;
    -?) box help $1 2>/dev/null | sed -n "s/^  $option, --[a-z-]* \([^ ][^ ]*\).*/\1/p" ;;
  esac
}

_box_sessions() {
  box ps -q 2>/dev/null
}

_box_processes() {
  box inspect "$1" 2>/dev/null | sed -n 's/.*"process_id": "\([^"]*\)".*/\1/p'
}

_box_skills() {
  box skill ls -q 2>/dev/null
}

_box_skill_files() {
  box skill show "$1" --json 2>/dev/null | sed -n 's/^ *"path": "\([^"]*\)".*/\1/p'
}

_box_reply() {
  local IFS=$'\n'
  mapfile -t COMPREPLY < <(compgen "$@")
}

# The words that are neither options nor their values, up to the cursor.
_box_words() {
  local verb=$1 i word
  words=()
  for ((i = first; i < COMP_CWORD; i++)); do
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
    SKILL) _box_reply -W "$(_box_skills)" -- "$2" ;;
  esac
}

# The words behind `box skill VERB`.
_box_skill() {
  case $1:${#words[@]} in
    show:0 | export:0 | edit:0 | rm:*) _box_reply -W "$(_box_skills)" -- "$2" ;;
    show:1 | edit:1) _box_reply -W "$(_box_skill_files "${words[0]}")" -- "$2" ;;
    validate:0) _box_reply -d -W "$(_box_skills)" -- "$2" ;;
    import:0) _box_reply -d -- "$2" ;;
    install:0) _box_reply -f -- "$2" ;;
    help:0) _box_reply -W "$(_box_verbs skill)" -- "$2" ;;
  esac
}

_box() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
  local words=() first=2 closed=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _box_reply -W "$(_box_verbs "")" -- "$current"
    return
  fi
  if [[ $verb == skill ]]; then
    if ((COMP_CWORD == 2)); then
      _box_reply -W "$(_box_verbs skill)" -- "$current"
      return
    fi
    verb="skill ${COMP_WORDS[2]}" first=3
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
    help) _box_reply -W "$(_box_verbs "${words[0]}")" -- "$current" ;;
    skill\ *) _box_skill "${verb#skill }" "$current" ;;
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
