# Holds a shell open in a spool folder, so that it outlives whoever uses it. Bash alone is needed,
# and mkfifo, rm and sleep; the same file serves a local machine, a remote one and a container.
#
#   start MODE SPOOL ...   run MODE detached, in the folder where this was called, and return
#   keep  SPOOL IDLE       the daemon: one shell, started again with its state when it ends
#   spine SPOOL IDLE STATE the shell itself; reads `run ID` and `end -` from the FIFO `in`
#   job   SPOOL ID MOST    one background command, in a shell of its own with the same state; one
#                          that writes more than MOST bytes is stopped
#   task  SPOOL ID STATE MOST  what `job` becomes once it knows the state
#   view  SPOOL ID STATE KIND [again]  a confined shell, inside of bubblewrap: runs the commands that
#                          `spine` hands it, or this one; KIND is what it may change
#   stop  SPOOL ID WHY     end a command: INT, TERM, KILL
#   where SPOOL WORKSPACE  print the folder where the shell stands or would stand
#   destroy SPOOL          kill everything that was started in this spool and carries its mark
#   library SPOOL          do nothing; for `agent.sh`, which uses the functions
#
# Of each command: ID.c text, ID.s claimed (start, fg or bg, pid and ticks of the claimer, children
# it had before), ID.o and ID.e output, ID.i input, ID.k why it was stopped, ID.r exit code and time,
# ID.v variables that it alone sees; gone when it runs; ID.f there if it is confined: KIND and what
# it runs in. Who creates
# ID.s runs the command and nobody else does. ID.r is one short write: empty is "not yet". In the
# folder `private`, which confined commands do not see: ID.i, ID.v and the FIFOs.
# Of the shell: daemon.N (pid, ticks, "ready"; the highest N counts), spine (pid, ticks), now (the
# id in hand: its first line), state.0 and state.1 (snapshots; the later whole one counts), in, out,
# spare (room that is given up for an ID.r that a full disk does not take), KIND.view, KIND.bpf,
# KIND.covers and KIND.limits (what bubblewrap and the kernel allow those that are confined), KIND.look
# (FIFOs to them and from them).

if ((BASH_VERSINFO[0] < 5)); then exit 3; fi

# The braces make bash read all of this before it runs any of it: aliases of the user do not reach
# it and the file may be replaced meanwhile.
{
if [[ $1 == spine || $1 == task || $1 == view ]]; then
  trap : INT
  # A mark on all that is started here, whatever it does to its environment and its parents: Linux
  # ignores this limit, hands it down and lets only root raise it. See `host/inspect.py`.
  builtin ulimit -x 0 2>/dev/null || :
  if [[ $1 == view && -z $6 ]]; then
    builtin read -r -t 10 -u 6 || exit 126 # its control groups hold it by now
    exec 6<&-
  fi
  # At the top level, because `declare` in a function makes locals; before our own definitions,
  # because the snapshot holds those of an older daemon.
  if [[ -n $4 ]]; then . "$4" >/dev/null 2>&1 || :; fi
  builtin trap - EXIT
  builtin hash -r
  __hermes_mode=$1 __hermes_spool=$2 __hermes_seq=${__hermes_seq:-0}
  __hermes_id= __hermes_text= __hermes_rc=0 __hermes_verb= __hermes_next= __hermes_lent=()
  builtin export HERMES_SPOOL=$2

  __hermes_read() {
    __hermes_text=
    IFS= builtin read -r -d '' __hermes_text <"$__hermes_spool/$1.c" || :
  }

  # Become bubblewrap, and in it a confined shell. What comes back from there is data: a
  # code, a folder and values. Through a file that stayed open, it could be written: none does.
  __hermes_confine() {
    builtin mapfile -d '' -t __hermes_lent <"$__hermes_spool/$__hermes_id.f"
    for __hermes_next in "/proc/$BASHPID/fd/"*; do
      __hermes_next=${__hermes_next##*/}
      if ((__hermes_next > 2 && __hermes_next != 255)); then exec {__hermes_next}>&-; fi
    done
    __hermes_next=$__hermes_spool/${__hermes_lent[0]}
    __hermes_map=()
    builtin mapfile -t -s 1 __hermes_groups <"$__hermes_next.limits"
    __hermes_prepare "${__hermes_groups[@]/%//cgroup.procs}"
    if [[ ${__hermes_lent[0]} == workspace ]]; then __hermes_hold_repository; fi
    exec "${__hermes_lent[1]}" --args 7 "${__hermes_map[@]}" -- "${__hermes_lent[@]:2}" "$BASH" --noprofile \
      --norc "$0" view "$__hermes_spool" "$1" "$2" "${__hermes_lent[0]}" \
      7<"$__hermes_next.view" 8<"$__hermes_next.bpf" 9<"$__hermes_next.covers"
  }

  # While it opens: join these control groups, for which the kernel takes its time, and say so in
  # file 6. For root also the same users inside as outside, where bubblewrap alone would know but one.
  __hermes_prepare() {
    local pid file first count lines info block=
    exec 6<> <(:)
    if (($# == 0)); then
      builtin echo >&6
      if ((EUID)); then return; fi
    fi
    exec {info}<> <(:)
    __hermes_map=(--info-fd "$info")
    if ((EUID == 0)); then
      exec {block}<> <(:)
      __hermes_map+=(--userns-block-fd "$block")
    fi
    (
      {
        while IFS= builtin read -r -t 10 -u "$info" pid; do
          if [[ $pid =~ child-pid\":\ *([0-9]+) ]]; then break; fi
        done
        pid=${BASH_REMATCH[1]}
        if [[ -n $block ]]; then
          for file in uid_map gid_map; do
            lines=
            while builtin read -r first _ count; do lines+="$first $first $count"$'\n'; done <"/proc/$$/$file"
            builtin printf %s "$lines" >"/proc/$pid/$file"
          done
          builtin echo >&"$block"
        fi
        for file; do builtin echo "$pid" >"$file" || exit; done
        if (($#)); then builtin echo >&6; fi
      } &
    )
  }

  # The repository of a workspace cannot be written, nor what a link or a file in its place leads to,
  # if that is in the workspace: elsewhere it may be hidden.
  __hermes_hold_repository() {
    local work git named=.git
    IFS= builtin read -r -d '' work <"$__hermes_spool/workspace.root"
    for _ in 1 2; do
      git=$(cd -- "$work" && builtin command -p readlink -f -- "$named")
      if [[ $git != "$work"/* || ! -e $git ]]; then return; fi
      __hermes_map+=(--ro-bind "$git" "$git")
      if [[ ! -f $git ]]; then return; fi
      builtin read -r _ named <"$git"
    done
  } 2>/dev/null

  if [[ $__hermes_mode == view ]]; then
    __hermes_id=$3 __hermes_kind=$5 __hermes_flags=$-
    IFS=' ' builtin read -r __hermes_text __hermes_next <"$__hermes_spool/$__hermes_kind.limits" || :
    if [[ $__hermes_text != - ]]; then builtin ulimit -u "$__hermes_text"; fi
    if [[ $__hermes_next != - ]]; then builtin ulimit -d "$__hermes_next"; fi
    builtin ulimit -c 0
    builtin export TMPDIR=$__hermes_spool/$__hermes_kind.scratch
    if [[ $__hermes_kind == workspace ]]; then builtin export XDG_CACHE_HOME=$TMPDIR; fi
    builtin set +e
    builtin set --
    if [[ $__hermes_id != - ]]; then # this command alone
      builtin trap - INT
      __hermes_read "$__hermes_id"
      if [[ $__hermes_flags == *e* ]]; then builtin set -e; fi
      builtin eval "$__hermes_text"
      exit
    fi
    exec </dev/null >/dev/null 2>/dev/null # those of the view: others could be changed through them
    builtin trap : INT TERM HUP
    # Where it stands now, and the variables that it assigns by name.
    __hermes_report() {
      builtin printf 'at %s\0' "$PWD"
      for __hermes_next in "${__hermes_words[@]:2}"; do
        if [[ -v $__hermes_next && ${!__hermes_next@a} == ?(x) ]]; then
          builtin printf 'set %s=%s\0' "$__hermes_next" "${!__hermes_next}"
        fi
      done
    } 2>/dev/null 1<>"$__hermes_spool/$__hermes_kind.look/out"
    while :; do
      # Not open for writing, so that nobody here can; until somebody writes, it waits.
      if ! IFS=' ' builtin read -r -a __hermes_words <"$__hermes_spool/$__hermes_kind.look/in"; then
        if [[ -p $__hermes_spool/$__hermes_kind.look/in ]]; then continue; else exit 0; fi
      fi
      if [[ ${__hermes_words[0]} == renew ]]; then
        exec "$BASH" --noprofile --norc "$0" view "$__hermes_spool" - "${__hermes_words[1]}" \
          "$__hermes_kind" again
      fi
      __hermes_read "${__hermes_words[1]}"
      (
        builtin trap - INT TERM HUP
        builtin trap __hermes_report EXIT
        exec </dev/null >|"$__hermes_spool/$__hermes_kind.look/1" 2>|"$__hermes_spool/$__hermes_kind.look/2"
        if [[ $__hermes_flags == *e* ]]; then builtin set -e; fi
        builtin eval "$__hermes_text"
      )
      __hermes_rc=$?
      builtin printf 'end %s %s\0' "${__hermes_words[1]}" "$__hermes_rc" 1<>"$__hermes_spool/$__hermes_kind.look/out"
    done 2>/dev/null
    exit 0
  fi

  IFS=' ' builtin read -r -a __hermes_me <"/proc/$$/stat" || :
  __hermes_me="$$ ${__hermes_me[21]}"

  # These run as the condition of `while` or left of `||`, so that `set -e` does not reach them;
  # none has locals that a snapshot would take for the user's.
  __hermes_claim() {
    local - children=
    builtin set -C
    [[ -s $__hermes_spool/spare ]] || builtin printf '%4096s' '' 2>/dev/null >|"$__hermes_spool/spare"
    builtin read -r children 2>/dev/null <"/proc/$$/task/$$/children"
    builtin printf '%s %s %s %s\n' "${EPOCHREALTIME/,/.}" "$2" "$__hermes_me" "$children" \
      2>/dev/null >"$__hermes_spool/$1.s"
  }

  # NAME=VALUE, each ended by a NUL. Lent for one command: neither file nor shell keeps them.
  __hermes_lend() {
    if [[ ! -e $__hermes_spool/private/$1.v ]]; then return 0; fi
    builtin mapfile -d '' -t __hermes_lent <"$__hermes_spool/private/$1.v"
    builtin command -p rm -f "$__hermes_spool/private/$1.v"
    for __hermes_next in "${__hermes_lent[@]}"; do builtin export "$__hermes_next"; done
    __hermes_lent=("${__hermes_lent[@]%%=*}") __hermes_next=
  }

  __hermes_take_back() {
    if ((${#__hermes_lent[@]})); then builtin unset -v "${__hermes_lent[@]}"; fi
    __hermes_lent=()
  }

  # Functions come before aliases, which would be expanded in them once more; options come last.
  # Written over the old text, of which a tail may stay behind `return`: to empty a file first is
  # slow on ext4, which then writes it to the disk at once.
  __hermes_save() {
    __hermes_seq=$((__hermes_seq + 1))
    {
      builtin printf '# %s\n# at %q\n' "$__hermes_seq" "$PWD"
      builtin shopt -p
      builtin declare -f
      builtin declare -F
      builtin declare -p
      builtin alias -p
      builtin umask -p
      builtin printf 'builtin cd -- %q\n' "$PWD"
      builtin trap -p
      builtin set +o
      builtin printf '# whole %s\nreturn 0\n' "$__hermes_seq"
    } 2>/dev/null 1<>"$__hermes_spool/state.$((__hermes_seq % 2))"
  }

  __hermes_tell() {
    if [[ -p $__hermes_spool/private/out ]]; then
      builtin printf '%s %s\n' "$1" "$2" 1<>"$__hermes_spool/private/out"
    fi
  }

  __hermes_answer() {
    if ! builtin printf '%s %s\n' "$1" "${EPOCHREALTIME/,/.}" >|"$__hermes_spool/$__hermes_id.r"; then
      : >|"$__hermes_spool/spare"
      builtin printf '%s %s\n' "$1" "${EPOCHREALTIME/,/.}" >|"$__hermes_spool/$__hermes_id.r"
    fi
    __hermes_tell "$__hermes_id" "$1"
    __hermes_id=
  }

  if [[ $__hermes_mode == task ]]; then
    __hermes_claim "$3" bg || exit 0
    __hermes_id=$3
    __hermes_read "$3"
    command -p mkfifo -m 600 "$2/private/$3.i"
    [[ -p $2/private/pause ]] || command -p mkfifo -m 600 "$2/private/pause" 2>/dev/null
    __hermes_most=$5
    __hermes_state=$4
    builtin set -m
    builtin set --
    (
      builtin trap - INT EXIT
      __hermes_lend "$__hermes_id"
      exec <>"$__hermes_spool/private/$__hermes_id.i" 2>|"$__hermes_spool/$__hermes_id.e" \
        >|"$__hermes_spool/$__hermes_id.o"
      if [[ -e $__hermes_spool/$__hermes_id.f ]]; then __hermes_confine "$__hermes_id" "$__hermes_state"; fi
      builtin eval "$__hermes_text"
    ) &
    __hermes_next=$!
    builtin set +eux
    builtin trap : INT TERM HUP
    builtin trap - EXIT ERR DEBUG
    # How far its output has got, once a second; to open a file and to fork would cost more.
    {
      builtin trap - INT TERM HUP
      exec <>"$__hermes_spool/private/pause"
      while builtin kill -0 "$$" 2>/dev/null; do
        for __hermes_verb in 1 2; do
          __hermes_text=0
          IFS=$' \t' builtin read -r _ __hermes_text <"/proc/$__hermes_next/fdinfo/$__hermes_verb"
          if ((__hermes_text > __hermes_most)); then
            PATH=$PATH:/usr/bin:/bin "$BASH" --noprofile --norc "$0" start stop "$__hermes_spool" "$__hermes_id" flood </dev/null
            exit 0
          fi
        done
        builtin read -r -t 1 _
      done
    } </dev/null >/dev/null 2>&1 &
    builtin set +m # as in `keep`
    # A trapped signal ends `wait` early.
    while builtin kill -0 "$__hermes_next" 2>/dev/null; do builtin wait "$__hermes_next"; done
    builtin wait "$__hermes_next"
    __hermes_rc=$?
    builtin kill -KILL -- "-$!" 2>/dev/null
    __hermes_answer "$__hermes_rc"
    exit 0
  fi

  __hermes_idle=$3

  # The confined shells by what they may change, and with which state; how often that has changed.
  builtin unset -v __hermes_views __hermes_known __hermes_covered __hermes_users
  builtin declare -A __hermes_views __hermes_known __hermes_covered __hermes_users
  __hermes_changed=0

  # Kill what is below the shell in a view, until nothing is; its orphans stay its children. What
  # starts others faster than that is stopped first.
  __hermes_sweep_view() {
    local __hermes_kin __hermes_tries=200 __hermes_pid=${__hermes_views[$1]}
    IFS=' ' builtin read -r __hermes_next _ <"/proc/$__hermes_pid/task/$__hermes_pid/children"
    while ((__hermes_tries--)); do
      __hermes_kin=()
      IFS=' ' builtin read -r -a __hermes_kin <"/proc/$__hermes_next/task/$__hermes_next/children"
      if ((${#__hermes_kin[@]} == 0)); then return 0; fi
      if ((__hermes_tries < 195)); then __hermes_kin_below "${__hermes_kin[@]}"; fi
      builtin kill -STOP "${__hermes_kin[@]}"
      builtin kill -KILL "${__hermes_kin[@]}"
    done
  } 2>/dev/null

  # Kill what is left after a view has ended by itself: in its control group, or else of its users.
  __hermes_end_group() {
    local __hermes_tries=200 __hermes_kin __hermes_groups
    builtin mapfile -t -s 1 __hermes_groups <"$__hermes_spool/$1.limits"
    while ((__hermes_tries--)); do
      if ((${#__hermes_groups[@]})); then
        builtin mapfile -t __hermes_kin <"${__hermes_groups[0]}/cgroup.procs"
      elif [[ ${__hermes_users[$1]-} =~ ^user:\[[0-9]+\]$ ]]; then
        builtin mapfile -t __hermes_kin < <(
          builtin command -p find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/user' -lname "user:?${__hermes_users[$1]:6:-1}?"
        )
        __hermes_kin=("${__hermes_kin[@]#/proc/}") __hermes_kin=("${__hermes_kin[@]%%/*}")
      fi
      if ((${#__hermes_kin[@]} == 0)); then return 0; fi
      builtin kill -KILL "${__hermes_kin[@]}"
    done
  } 2>/dev/null

  __hermes_kin_below() {
    local __hermes_child __hermes_more
    for __hermes_child; do
      __hermes_more=()
      IFS=' ' builtin read -r -a __hermes_more <"/proc/$__hermes_child/task/$__hermes_child/children"
      __hermes_kin+=("${__hermes_more[@]}")
      if ((${#__hermes_more[@]})); then __hermes_kin_below "${__hermes_more[@]}"; fi
    done
  }

  __hermes_close_view() {
    if [[ -z ${__hermes_views[$1]-} ]]; then return 0; fi
    __hermes_sweep_view "$1"
    builtin kill -KILL "${__hermes_views[$1]}"
    builtin wait "${__hermes_views[$1]}"
    __hermes_views[$1]=
  } 2>/dev/null

  __hermes_close_views() {
    local __hermes_kind
    for __hermes_kind in "${!__hermes_views[@]}"; do __hermes_close_view "$__hermes_kind"; done
  }

  # The confined shell of this kind, with the state that this one has now; another than the one
  # that is open if there is more to hide, or another repository.
  __hermes_open_view() {
    local __hermes_look=$__hermes_spool/$1.look __hermes_covers=
    __hermes_next=$__hermes_spool/state.$((__hermes_seq % 2))
    [[ -e $__hermes_next ]] || __hermes_next=
    IFS= builtin read -r -d '' __hermes_covers <"$__hermes_spool/$1.covers"
    __hermes_covers+=$__hermes_git
    if [[ $__hermes_covers != "${__hermes_covered[$1]-}" ]]; then __hermes_close_view "$1"; fi
    if [[ -z ${__hermes_views[$1]-} ]] || ! builtin kill -0 "${__hermes_views[$1]}" 2>/dev/null; then
      if [[ ! -p $__hermes_look/in || -e $__hermes_look/used ]]; then # else new ones were made for us
        builtin command -p rm -rf "$__hermes_look"
        builtin command -p mkdir -m 700 "$__hermes_look"
        builtin command -p mkfifo -m 600 "$__hermes_look"/{in,out,1,2}
      fi
      : >|"$__hermes_look/used"
      { __hermes_confine - "$__hermes_next" </dev/null >/dev/null 2>|"$__hermes_spool/$1.log"; } &
      __hermes_views[$1]=$! __hermes_known[$1]=$__hermes_changed __hermes_covered[$1]=$__hermes_covers
      __hermes_users[$1]=
    fi
  }

  # NAME=VALUE. Only to the plain variables that the command assigns by name, and never to what
  # programs get: to others a value could be more than a value.
  __hermes_assign() {
    local __hermes_name=${1%%=*} __hermes_value=${1#*=}
    if [[ " $__hermes_names" != *" $__hermes_name "* || -n ${!__hermes_name@a} ]]; then return; fi
    if [[ ! -v $__hermes_name || ${!__hermes_name} != "$__hermes_value" ]]; then
      builtin printf -v "$__hermes_name" %s "$__hermes_value"
      ((++__hermes_changed))
    fi
  }

  # Run a command in it; where it went and what it assigned by name is repeated here.
  __hermes_look() {
    local __hermes_line __hermes_names= __hermes_rest=$__hermes_text __hermes_fds=() __hermes_cats=()
    local __hermes_kind __hermes_look __hermes_part= __hermes_bare=0 __hermes_work= __hermes_git=
    IFS= builtin read -r -d '' __hermes_kind <"$__hermes_spool/$__hermes_id.f"
    __hermes_look=$__hermes_spool/$__hermes_kind.look
    while [[ $__hermes_rest =~ (^|[^A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)\+?=(.*) ]]; do
      __hermes_rest=${BASH_REMATCH[3]}
      case ${BASH_REMATCH[2]} in
        __hermes* | BASH* | LD_* | IFS | ENV | PATH | CDPATH | PS? | PROMPT_* | SHELLOPTS | GLOB* | HIST* | \
          EXECIGNORE | POSIXLY_CORRECT | FIGNORE | TMOUT | FUNCNEST | MAIL* | INPUTRC | EMACS | TIMEFORMAT | \
          auto_resume | histchars) ;;
        *) __hermes_names+="${BASH_REMATCH[2]} " ;;
      esac
    done
    if [[ $__hermes_kind == workspace ]]; then
      IFS= builtin read -r -d '' __hermes_work <"$__hermes_spool/workspace.root"
      __hermes_repository && __hermes_git=$__hermes_next
      if [[ -z $__hermes_git || -L $__hermes_work/.git ]]; then __hermes_bare=1; fi
    fi
    __hermes_open_view "$__hermes_kind"
    exec {__hermes_fds[0]}<>"$__hermes_look/out" {__hermes_fds[1]}<>"$__hermes_look/1" \
      {__hermes_fds[2]}<>"$__hermes_look/2" {__hermes_fds[3]}<>"$__hermes_look/in" \
      {__hermes_fds[4]}<"$__hermes_look/1" {__hermes_fds[5]}<"$__hermes_look/2"
    if ((__hermes_known[$__hermes_kind] != __hermes_changed)); then
      builtin printf 'renew %s\n' "$__hermes_next" >&"${__hermes_fds[3]}"
      __hermes_known[$__hermes_kind]=$__hermes_changed
    fi
    builtin printf 'run %s %s\n' "$__hermes_id" "$__hermes_names" >&"${__hermes_fds[3]}"
    __hermes_rest=0.02 # seconds: what ends sooner needs nobody to read along
    while :; do
      if ! IFS= builtin read -r -d '' -t "$__hermes_rest" -u "${__hermes_fds[0]}" __hermes_line; then
        __hermes_part+=$__hermes_line # the time may be over in the midst of a line
        if [[ $__hermes_rest != 1 ]]; then __hermes_copy 1; __hermes_copy 2; __hermes_rest=1; fi
        if builtin kill -0 "${__hermes_views[$__hermes_kind]}" 2>/dev/null; then continue; fi
        builtin printf 'the confined shell ended: %s\n' "$(<"$__hermes_spool/$__hermes_kind.log")" >&2
        __hermes_end_group "$__hermes_kind"
        __hermes_rc=126 __hermes_views[$__hermes_kind]=
        break
      fi
      __hermes_line=$__hermes_part$__hermes_line __hermes_part=
      case $__hermes_line in
        "end $__hermes_id "*) __hermes_rc=${__hermes_line##* }; break ;;
        "users "*) : "${__hermes_users[$__hermes_kind]:=${__hermes_line#users }}" ;;
        "at $PWD") ;;
        "at "*) builtin cd -- "${__hermes_line#at }" 2>/dev/null && ((++__hermes_changed)) ;;
        "set "*) __hermes_assign "${__hermes_line#set }" ;;
      esac
    done
    if [[ ! $__hermes_rc =~ ^[0-9]{1,3}$ ]]; then __hermes_rc=126; fi
    __hermes_sweep_view "$__hermes_kind" # what it left running
    # Its hooks would run unconfined. One that was there is mounted, but a link to it is not.
    if ((__hermes_bare)) && __hermes_repository && [[ $__hermes_next != "$__hermes_git" ]]; then
      builtin command -p mv "$__hermes_work/.git" "$__hermes_spool/workspace.scratch/git.$__hermes_id"
      builtin printf 'hermes: the repository that this made was moved to %s\n' \
        "$__hermes_spool/workspace.scratch/git.$__hermes_id" >&2
    fi
    for __hermes_next in 1 2; do
      if builtin read -t 0 -u "${__hermes_fds[__hermes_next + 3]}"; then __hermes_copy "$__hermes_next"; fi
    done
    exec {__hermes_fds[0]}>&- {__hermes_fds[1]}>&- {__hermes_fds[2]}>&- {__hermes_fds[3]}>&- \
      {__hermes_fds[4]}>&- {__hermes_fds[5]}>&-
    if ((${#__hermes_cats[@]})); then
      # What is left of a view that has ended may keep its output open for ever.
      if [[ -z ${__hermes_views[$__hermes_kind]} ]]; then builtin kill "${__hermes_cats[@]}"; fi
      builtin wait "${__hermes_cats[@]}"
    fi 2>/dev/null
  }

  # Which repository is in the workspace, into `__hermes_next`. False: none.
  __hermes_repository() {
    [[ -e $__hermes_work/.git || -L $__hermes_work/.git ]] &&
      __hermes_next=$(builtin command -p stat -c '%i %w %N' "$__hermes_work/.git")
  } 2>/dev/null

  # Copy one of the two outputs of a look, until nobody can write it any more.
  __hermes_copy() {
    if [[ -n ${__hermes_cats[$1]-} ]]; then return 0; fi
    {
      if (($1 == 2)); then exec >&2; fi
      exec <&"${__hermes_fds[$1 + 3]}" {__hermes_fds[0]}>&- {__hermes_fds[1]}>&- \
        {__hermes_fds[2]}>&- {__hermes_fds[3]}>&- {__hermes_fds[4]}>&- {__hermes_fds[5]}>&-
      PATH=/usr/bin:/bin:$PATH
      exec cat
    } &
    __hermes_cats[$1]=$!
  }

  # The shell may end when it has no children left: jobs that the user put in the background.
  __hermes_end() {
    __hermes_close_views
    builtin read -r __hermes_next 2>/dev/null <"/proc/$$/task/$$/children"
    if [[ -z $__hermes_next ]]; then
      builtin printf '\n' 1<>"$__hermes_spool/now"
      exit 0
    fi
  }

  # Answer for the command that has ended, then wait for the next and claim it.
  __hermes_turn() {
    if [[ -n $__hermes_id ]]; then
      __hermes_take_back
      __hermes_save
      __hermes_answer "$__hermes_rc"
    fi
    while :; do
      IFS=' ' builtin read -r -t "$__hermes_idle" __hermes_verb __hermes_next \
        <>"$__hermes_spool/private/in"
      __hermes_rc=$?
      if ((__hermes_rc > 128)); then
        __hermes_end
      elif ((__hermes_rc)); then
        exit 1
      elif [[ $__hermes_verb == end ]]; then
        __hermes_end
      elif [[ -e $__hermes_spool/$__hermes_next.c ]] && __hermes_claim "$__hermes_next" fg; then
        __hermes_id=$__hermes_next __hermes_rc=0
        builtin printf '%s\n' "$__hermes_id" 1<>"$__hermes_spool/now"
        __hermes_read "$__hermes_id"
        __hermes_lend "$__hermes_id"
        return 0
      elif [[ -s $__hermes_spool/$__hermes_next.r ]]; then
        __hermes_tell "$__hermes_next" again
      fi
    done
  }

  __hermes_bye() {
    # Bash may run this in a part of the shell that is killed before it has begun.
    if [[ $BASHPID != "$$" ]]; then return 0; fi
    __hermes_close_views
    if [[ -n $__hermes_id ]]; then
      __hermes_take_back
      __hermes_save
      __hermes_answer "$1"
    fi
  }

  builtin printf '%s\n' "$__hermes_me" >|"$2/spine"
  # Whoever stops a command sends URG: the whole list is given up, not just its running part.
  builtin trap 'if [[ -n $__hermes_id && -e $__hermes_spool/$__hermes_id.k ]]; then exit 130; fi' URG
  builtin trap '{ __hermes_bye "$?" || :; } 2>/dev/null' EXIT
  builtin set --

  # A `continue` of the user lands in the condition and a `break` behind the loop: both answer.
  while { __hermes_turn; } 2>/dev/null; do
    exec </dev/null >|"$__hermes_spool/$__hermes_id.o" 2>|"$__hermes_spool/$__hermes_id.e" ||
      { __hermes_rc=126; continue; }
    [[ $- == *m* ]] || builtin set -m
    if [[ -e $__hermes_spool/$__hermes_id.f ]]; then __hermes_look || :; continue; fi
    ((++__hermes_changed))
    builtin eval "$__hermes_text"
    { __hermes_rc=$?; } 2>/dev/null
  done
  exit 0
fi

mode=$1 spool=$2
shift 2

# Whether that very process lives: a pid alone may have been given to another since.
alive() {
  local stat=
  read -r -d '' stat 2>/dev/null <"/proc/$1/stat"
  stat=(${stat##*) })
  [[ -n $2 && ${stat[19]} == "$2" && ${stat[0]} != [ZX] ]]
}

group_of() {
  local stat=
  read -r -d '' stat 2>/dev/null <"/proc/$1/stat"
  stat=(${stat##*) })
  group=${stat[2]} born=${stat[19]}
}

newest() {
  local file
  number=0
  for file in "$spool"/daemon.*; do
    file=${file##*.}
    if [[ $file =~ ^[0-9]+$ ]] && ((file > number)); then number=$file; fi
  done
}

lives() {
  local pid= ticks=
  read -r pid ticks _ 2>/dev/null <"$1"
  [[ -n $pid ]] && alive "$pid" "$ticks"
}

pick_state() {
  local file text number best=0
  state=
  for file in "$spool/state.0" "$spool/state.1"; do
    IFS= read -r -d '' text 2>/dev/null <"$file"
    number=${text%%$'\n'*}
    number=${number#\# }
    if [[ $number =~ ^[0-9]+$ && $text == *$'\n'"# whole $number"$'\nreturn 0\n'* ]] &&
      ((number > best)); then
      best=$number state=$file
    fi
  done
}

# The folder where the shell stands, or would stand if it were started again, into `folder`.
stands() {
  local pid= ticks= number= state= workspace=$1
  folder=$1
  read -r pid ticks 2>/dev/null <"$spool/spine"
  if [[ -n $pid ]] && alive "$pid" "$ticks" && cd -P "/proc/$pid/cwd" 2>/dev/null; then
    folder=$PWD
    return 0
  fi
  pick_state
  if [[ -z $state ]]; then return 0; fi
  { read -r number; read -r number; } 2>/dev/null <"$state"
  if [[ $number != '# at '* ]]; then return 0; fi
  eval "folder=${number#\# at }"
  if [[ ! -d $folder ]]; then folder=$workspace; fi
}

record() {
  if ! printf '%s %s\n' "$2" "${EPOCHREALTIME/,/.}" >|"$spool/$1.r"; then
    : >|"$spool/spare"
    printf '%s %s\n' "$2" "${EPOCHREALTIME/,/.}" >|"$spool/$1.r"
  fi
  if [[ -p $spool/private/out ]]; then printf '%s %s\n' "$1" "$2" 1<>"$spool/private/out"; fi
}

# Only one daemon per spool, though two may be started: the one that makes the next number, and
# still has the highest once it is made, stays.
take_spool() {
  local mine stat file
  newest
  if lives "$spool/daemon.$number" || lives "$spool/spine"; then return 1; fi
  mine=$((number + 1))
  read -r -d '' stat <"/proc/$$/stat"
  stat=(${stat##*) })
  set -C
  printf '%s %s\n' "$$" "${stat[19]}" 2>/dev/null >"$spool/daemon.$mine" || return 1
  set +C
  newest
  if ((number != mine)); then rm -f "$spool/daemon.$mine"; return 1; fi
  for file in "$spool"/daemon.*; do
    if [[ ${file##*.} =~ ^[0-9]+$ && ${file##*.} != "$mine" ]]; then rm -f "$file"; fi
  done
}

keep() {
  local idle=$1 id last= pid rc failures=0 state
  take_spool || exit 0
  rm -f "$spool/private/in" "$spool/private/out"
  mkfifo -m 600 "$spool/private/in" "$spool/private/out" || exit 1
  exec 8<>"$spool/private/in" 9<>"$spool/private/out"
  # What an earlier daemon had in hand when it died stays unknown.
  printf '\n' >|"$spool/now"
  printf '%s %s ready\n' $(<"$spool/daemon.$number") >|"$spool/daemon.$number"
  trap : INT HUP
  while :; do
    pick_state
    # A snapshot that ends the shell again and again is not restored once more.
    if ((failures > 2)); then state=; fi
    # A group of its own for the shell, and no job control while we wait: with it, bash may lose
    # sight of a child that is killed, and turn round in `wait` for ever.
    set -m
    "$BASH" --noprofile --norc "$0" spine "$spool" "$idle" "$state" 8>&- 9>&- &
    pid=$!
    set +m
    while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done
    wait "$pid"
    rc=$? id=
    read -r id 2>/dev/null <"$spool/now"
    if [[ -z $id && $rc == 0 ]]; then exit 0; fi
    if [[ -n $id && ! -s $spool/$id.r ]]; then rm -f "$spool/private/$id.v"; record "$id" "$rc"; fi
    if [[ $id != "$last" ]]; then failures=0 last=$id; else failures=$((failures + 1)); fi
    if ((failures > 5)); then exit 1; fi
  done
}

# The processes below one, those it had before the command left out.
kin() {
  local pid=$1 child children=
  read -r children 2>/dev/null <"/proc/$pid/task/$pid/children"
  for child in $children; do
    [[ " $before " == *" $child "* ]] && continue
    family+=("$child")
    kin "$child"
  done
}

signal() {
  local name=$1 owner=$2 kind=$3 pid group born home told=' '
  family=()
  kin "$owner"
  group_of "$owner"
  home=$group
  # The shell first: when its child dies it must know that nothing more is wanted.
  if [[ $kind == fg ]]; then kill -URG "$owner" 2>/dev/null; fi
  for pid in "${family[@]}"; do
    group_of "$pid"
    if [[ -z $group ]]; then continue; fi
    seen+=("$pid $born")
    if [[ $group == "$home" ]]; then
      kill -"$name" "$pid" 2>/dev/null
    elif [[ $told != *" $group "* ]]; then
      told+="$group "
      kill -"$name" -- "-$group" 2>/dev/null
    fi
  done
}

# What a command started and left running when it was stopped: a program in the background of a
# script does not hear INT, and has no parent any more.
sweep() {
  local name one tries family
  for name in TERM KILL; do
    for ((tries = 10; tries; tries--)); do
      family=()
      for one in "${seen[@]}"; do
        if alive $one; then family+=("${one% *}"); kin "${one% *}"; fi
      done
      if ((${#family[@]} == 0)); then return; fi
      if ((tries == 10)) || [[ $name == KILL ]]; then kill -"$name" "${family[@]}" 2>/dev/null; fi
      sleep 0.02
    done
  done
}

ended() {
  local tries
  for ((tries = $1; tries; tries--)); do
    [[ -s $spool/$id.r ]] && return 0
    sleep 0.02
  done
  return 1
}

stop() {
  local id=$1 why=$2 start= kind= pid= ticks= before= name tries family seen=()
  if (set -C; printf '%s fg 0 0\n' "${EPOCHREALTIME/,/.}" >"$spool/$id.s") 2>/dev/null; then
    printf '%s\n' "$why" >|"$spool/$id.k"
    rm -f "$spool/private/$id.v"
    record "$id" 130
    exit 0
  fi
  if [[ -s $spool/$id.r ]]; then exit 0; fi
  (set -C; printf '%s\n' "$why" >"$spool/$id.k") 2>/dev/null
  for ((tries = 50; tries; tries--)); do
    read -r start kind pid ticks before <"$spool/$id.s"
    [[ -n $ticks ]] && break
    sleep 0.02
  done
  for name in INT TERM KILL; do
    if ! alive "$pid" "$ticks"; then break; fi
    signal "$name" "$pid" "$kind"
    if ended 50; then sweep; exit 0; fi
  done
  if alive "$pid" "$ticks"; then kill -KILL "$pid"; fi
  # The daemon has a moment to say how the shell ended; a background command has no daemon.
  if ! ended 50; then record "$id" 137; fi
  sweep
}

# All that carries our mark in its environment, what it started without it, and their groups.
destroy() {
  local found=1 file entry lines group born pid before= family tries
  for ((tries = 250; tries && found; tries--)); do
    found=0
    for file in /proc/[0-9]*; do
      mapfile -d '' lines 2>/dev/null <"$file/environ" || continue
      # At a glance: a server that writes its title there leaves thousands of empty entries.
      [[ ${lines[*]} == *"HERMES_SPOOL=$spool"* ]] || continue
      for entry in "${lines[@]}"; do
        [[ $entry == "HERMES_SPOOL=$spool" ]] || continue
        family=("${file##*/}")
        kin "${file##*/}"
        for pid in "${family[@]}"; do
          group_of "$pid"
          if [[ -n $group ]] && kill -KILL -- "-$group" 2>/dev/null; then found=1; fi
        done
        break
      done
    done
    if ((found)); then sleep 0.02; fi
  done
}

case $mode in
  start)
    # With job control the new process may be interrupted and has a group of its own.
    set -m
    mode=$spool
    "$BASH" --noprofile --norc "$0" "$mode" "$@" &
    ;;
  keep) keep "$@" ;;
  job)
    pick_state
    exec "$BASH" --noprofile --norc "$0" task "$spool" "$1" "$state" "$2"
    ;;
  stop) stop "$@" ;;
  where) stands "$1"; printf '%s' "$folder" ;;
  destroy) destroy ;;
  library) return 0 ;;
esac
exit 0
}
