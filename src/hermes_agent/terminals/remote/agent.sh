# Serves a spool from its own machine: reads requests from its input, does them, answers, until the
# input ends. Bash 5 and coreutils or busybox are needed.
#
#   agent.sh SPOOL KEEPER [listen]
#
# A request is a line: a verb, then arguments, each `=` and text in which `\xHH` is a byte. The first
# is `hello`. An answer is a line of words, then blocks, then the line `.`; `no KIND` is trouble. A
# block is text in one line, `=` and the text with `\\`, `\n`, `\t` and `\x21`, or base64 between the
# lines `<` and `>`. With `listen`, `!ID ...!` comes as soon as a command has ended, in the middle of
# a line even, which has no `!` of its own: what is known of it, and its output when that is short,
# separated by tabs. It is one write of less than 4 kB (and without a newline, at which bash would
# begin another), so that the two writers do not mix.

{
spool=$1 script=$2 wants=$3 LOCALE=${LC_ALL-none}
export LC_ALL=C
IFS=$' \t\n'
exec 2>/dev/null
. "$script" library "$spool"

readonly SHORT=1400
daemon= seen=0 listener= workspace= expected= nonce=

pause() { read -r -t "$1" _ <>"$spool/private/pause"; }

no() { printf 'no %s\n=%s\n.\n' "$1" "$2"; }

ok() { printf '%s\n.\n' "$*"; }

# --- blocks of an answer

# Text as one line, into `line`.
plain() {
  line=${1//\\/\\\\}
  line=${line//$'\n'/\\n}
  line=${line//$'\t'/\\t}
  line=${line//!/\\x21}
}

say() { plain "$1"; printf '=%s\n' "$line"; }

# The whole of a short file without a NUL byte, into `text`. False: it is another.
short() {
  text=
  [[ -s $1 ]] || return 0
  ! IFS= read -r -d '' -n $((SHORT + 1)) text <"$1"
}

encoded() { printf '<\n'; base64; printf '>\n'; }

show() { if short "$1"; then say "$text"; else encoded <"$1"; fi; }

size_of() {
  size=0
  [[ -e $1 ]] && size=$(stat -L -c %s -- "$1")
}

# --- commands

result() {
  code=- end=-
  [[ -s $spool/$1.r ]] || return 0
  read -r code end <"$spool/$1.r" || { code=- end=-; }
  if [[ -n $code && $code != - && -z $end ]]; then end=$(stat -c %Y -- "$spool/$1.r"); fi
}

claim() {
  local tries
  start=- kind=- pid= ticks=
  [[ -e $spool/$1.s ]] || return 1
  for ((tries = 50; tries; tries--)); do
    read -r start kind pid ticks _ <"$spool/$1.s" || { [[ -e $spool/$1.s ]] || break; }
    if [[ -n $ticks ]]; then return 0; fi
    pause 0.001
  done
  start=- kind=- pid= ticks=
  [[ -e $spool/$1.s ]] || return 1
  # Cut off by a full disk, or its writer died.
  start=$(stat -c %Y -- "$spool/$1.s") kind=fg pid=0
}

# Whether the daemon or its shell lives; then we listen to it. `seen` is when it did.
daemon_lives() {
  seen=0
  find_daemon && seen=$EPOCHSECONDS
}

find_daemon() {
  local pid= ticks= word=
  if [[ -n $daemon ]]; then
    alive $daemon || lives "$spool/spine"
    return
  fi
  newest
  if ! ((number)); then return 1; fi
  read -r pid ticks word <"$spool/daemon.$number"
  if [[ $word != ready || ! -p $spool/private/in || ! -p $spool/private/out ]]; then return 1; fi
  alive "$pid" "$ticks" || lives "$spool/spine" || return 1
  daemon="$pid $ticks"
  if [[ -n $wants ]]; then
    if [[ -n $listener ]]; then kill "$listener"; fi
    hear &
    listener=$!
  fi
}

# What is known of a command, as words in `facts`, all read now: known code end start kind held why
# in-hand daemon begun size now.
look() {
  local id=$1 code end start kind pid ticks known=0 held=0 why=- hand=0 lives=0 begun=0 size=0 other=
  [[ -e $spool/$id.c ]] && known=1
  result "$id"
  claim "$id"
  if [[ $code == - ]]; then
    if [[ -n $ticks ]]; then
      alive "$pid" "$ticks" && held=1
    elif [[ $kind != - ]]; then
      ((${EPOCHSECONDS} - ${start%.*} < 5)) && held=1
    fi
    daemon_lives && lives=1
    read -r other <"$spool/now"
    [[ $other == "$id" ]] && hand=1
    if ((held)); then
      size_of "$spool/$id.o"; other=$size
      size_of "$spool/$id.e"; size=$((size + other))
    fi
    result "$id" # asked again: who has just ended has left a result
  fi
  if [[ $code != - && -e $spool/private/$id.v ]]; then rm -f -- "$spool/private/$id.v"; fi
  if [[ -s $spool/$id.k ]]; then read -r why <"$spool/$id.k"; fi
  [[ -e $spool/$id.o ]] && begun=1
  facts="$known $code $end $start $kind $held $why $hand $lives $begun $size ${EPOCHREALTIME/,/.}"
}

# What the shell tells of commands that have ended goes out at once.
hear() {
  local id rest got text line out
  wants=
  while kill -0 "$$"; do
    read -r -t 10 id rest
    got=$?
    if ((got > 128)); then continue; elif ((got)); then break; fi
    look "$id"
    if short "$spool/$id.o"; then
      plain "$text" && out=$line
      if short "$spool/$id.e" && plain "$text" && ((${#out} + ${#line} < 3500)); then
        printf '!%s %s\t=%s\t=%s!' "$id" "$facts" "$out" "$line"
        continue
      fi
    fi
    printf '!%s %s!' "$id" "$facts"
  done <>"$spool/private/out"
}

# Run a part of the daemon as the user would: in the workspace, with the locale that was set.
launch() (
  cd -- "$workspace" || exit 1
  if [[ $LOCALE == none ]]; then unset LC_ALL; else export LC_ALL=$LOCALE; fi
  export TERM=dumb
  if [[ $1 != stop ]]; then export HERMES_SPOOL=$spool; fi
  exec "$BASH" --noprofile --norc "$script" start "$1" "$spool" "${@:2}" \
    </dev/null >>"$spool/log" 2>&1
)

ready() {
  local tries
  # What is handed to a daemon that died since is handed in again when nobody takes it.
  if ((EPOCHSECONDS - seen < 3)) || daemon_lives; then return 0; fi
  daemon=
  if daemon_lives; then return 0; fi
  for ((tries = 6000; tries; tries--)); do
    # Again now and then: one to which nobody came in time has ended.
    if ((tries % 200 == 0)); then launch keep "$idle" || return 1; fi
    if daemon_lives; then return 0; fi
    pause 0.005
  done
  return 1
}

put_text() {
  local old=
  if [[ ! -e $spool/$1.c ]]; then
    printf '%s' "$2" >"$spool/$1.c"
    return
  fi
  # Whole already, or cut off when its writer died; a shell may be reading it.
  IFS= read -r -d '' old <"$spool/$1.c"
  if [[ $old == "$2" ]]; then return 0; fi
  printf '%s' "$2" >"$spool/$1.c.new" && mv -f -- "$spool/$1.c.new" "$spool/$1.c"
}

# Have a command run in a view: behind the words of it, which `view.sh` has written.
confine() {
  local words=() kept=() one
  if [[ -s $spool/$1.f ]]; then return 0; fi # another shell may be reading it
  mapfile -d '' -t words <"$spool/$2.words"
  for one in "${words[@]}"; do # in the background it has no business with the shell of the others
    if [[ $3 != bg || $one != "$spool/$2.look/"* ]]; then kept+=("$one"); fi
  done
  if ((${#kept[@]})) && printf '%s\0' "${kept[@]}" >"$spool/$1.f"; then return 0; fi
  rm -f -- "$spool/$1.f"
  return 1
}

# begin ID fg|bg TEXT-FOLLOWS TEXT CONFINEMENT [NAME=VALUE ...]
begin() {
  local id=$1 way=$2 follows=$3 text=$4 view=$5 start kind pid ticks
  shift 5
  if claim "$id" && [[ $kind == void ]]; then rm -f -- "$spool/$id.s"; kind=-; fi
  if [[ $kind == - && ! -s $spool/$id.r ]]; then
    if (($#)); then (umask 077 && printf '%s\0' "$@" >"$spool/private/$id.v") || { no full; return; }; fi
    if ((follows)) && ! put_text "$id" "$text"; then no full; return; fi
    if [[ $view != none ]] && ! confine "$id" "$view" "$way"; then no view; return; fi
    if [[ ! -d $workspace ]]; then no workspace "$workspace"; return; fi
    if [[ $way == bg ]]; then
      launch job "$id" "$most"
    elif ready; then
      # What nobody listens to would fill the FIFO in the end, and the shell would wait.
      if [[ -z $wants ]]; then while read -r -t 0.001 _; do :; done <>"$spool/private/out"; fi
      # A full FIFO, where this would wait, holds the line a thousand times over.
      handed[$id]=$((${handed[$id]:-0} + 1))
      if ((handed[$id] < 1000)); then printf 'run %s\n' "$id" 1<>"$spool/private/in"; fi
      ok "1 - - - - 0 - 0 1 0 0 ${EPOCHREALTIME/,/.}"
      return
    else
      no shell "$spool/log"
      return
    fi
  fi
  look "$id"
  ok "$facts"
}

# How much of one file goes into a report: all of it up to WHOLE bytes, else HEAD and TAIL of it.
sized() {
  cut=0
  if short "$1"; then size=${#text}; return; fi
  size_of "$1"
  if ((size > whole)); then cut=1; fi
}

part() {
  if ((cut)); then
    head -c "$head" -- "$1" | encoded
    tail -c "$tail" -- "$1" | encoded
  elif short "$1"; then
    say "$text"
  else
    head -c "$whole" -- "$1" | encoded
  fi
}

# report ID WHOLE HEAD TAIL
report() {
  local id=$1 whole=$2 head=$3 tail=$4 size cut sizes=
  look "$id"
  sized "$spool/$id.o"; sizes+=" $size $cut"
  sized "$spool/$id.e"; sizes+=" $size $cut"
  printf '%s%s\n' "$facts" "$sizes"
  show "$spool/$id.c"
  set -- $sizes
  cut=$2; part "$spool/$id.o"
  cut=$4; part "$spool/$id.e"
  printf '.\n'
}

# news ID OUT ERR MOST: what is new beyond these places, no more than the last MOST bytes of it.
news() {
  local id=$1 size starts= start lengths=
  set -- "$spool/$id.o" "$2" "$spool/$id.e" "$3" "$4"
  local most=$5
  while (($# > 1)); do
    size_of "$1"
    start=$((size - most > $2 ? size - most : $2))
    starts+=" $start" lengths+=" $((size > start ? size - start : 0))"
    shift 2
  done
  printf '%s\n' "$starts"
  set -- $starts $lengths
  if (($3)); then tail -c +$(($1 + 1)) -- "$spool/$id.o" | head -c "$3" | encoded; else say; fi
  if (($4)); then tail -c +$(($2 + 1)) -- "$spool/$id.e" | head -c "$4" | encoded; else say; fi
  printf '.\n'
}

background() {
  local file id out
  printf 'ok\n'
  for file in "$spool"/private/*.i; do
    id=${file##*/} id=${id%.i}
    if [[ ! -p $file || ! -e $spool/$id.s ]]; then continue; fi
    look "$id"
    size_of "$spool/$id.o"; out=$size
    size_of "$spool/$id.e"
    say "$id $facts $out $size"
    show "$spool/$id.c"
  done
  printf '.\n'
}

send() {
  if base64 -d <<<"$2" | timeout 5 cat 1<>"$spool/private/$1.i"; then ok sent; else ok unread; fi
}

void() {
  local -
  set -C
  if printf '%s void 0 0\n' "${EPOCHREALTIME/,/.}" >"$spool/$1.s"; then
    rm -f -- "$spool/private/$1.v"
    ok void
  else
    ok taken
  fi
}

# Remove what has ended: its ids may be used once more.
clear_ended() {
  local file id facts
  for file in "$spool"/*.s; do
    [[ -e $file ]] || continue
    id=${file##*/} id=${id%.s}
    look "$id"
    set -- $facts
    if [[ $2 != - || $6 == 0 ]]; then rm -f -- "$spool/$id".{c,o,e,f,i,k,r,s,v}; fi
  done
  ok cleared
}

destroy_all() {
  if [[ -n $listener ]]; then kill "$listener"; fi
  daemon= seen=0 listener=
  "$BASH" --noprofile --norc "$script" destroy "$spool" </dev/null >/dev/null
  cd / && rm -rf -- "$spool"
  ok gone
}

# --- files

# An absolute path of one as the model writes it, into `path`.
absolute() {
  local name=
  path=$1
  if [[ $path =~ ^~([A-Za-z0-9._-]*)(/|$) ]]; then
    eval "name=~${BASH_REMATCH[1]}"
    if [[ $name == /* ]]; then path=$name${path#"~${BASH_REMATCH[1]}"}; fi
  fi
  if [[ $path != /* ]]; then path=$workspace/$path; fi
}

# The path with `..` and links followed as far as there is something, into `answer`.
real() {
  local rest=$1 part link hops=0
  answer=
  while [[ -n $rest ]]; do
    part=${rest%%/*}
    if [[ $rest == */* ]]; then rest=${rest#*/}; else rest=; fi
    case $part in
      '' | .) continue ;;
      ..) answer=${answer%/*} && continue ;;
    esac
    if [[ -L $answer/$part ]] && ((hops++ < 40)); then
      link=$(readlink -n -- "$answer/$part" && printf .)
      link=${link%.}
      rest=$link/$rest
      if [[ $link == /* ]]; then answer=; fi
    else
      answer=$answer/$part
    fi
  done
  answer=${answer:-/}
}

# Why a path cannot be used, as the word for `no`.
trouble() {
  local up=$1
  if [[ -d $1 ]]; then why=folder; return; fi
  while [[ $up == /?* ]]; do
    up=${up%/*}
    if [[ -e ${up:-/} && ! -d ${up:-/} ]]; then why=part; return; fi
    if [[ -d ${up:-/} && ! -x ${up:-/} ]]; then why=denied; return; fi
  done
  if [[ ! -e $1 ]]; then why=missing
  elif [[ ! -f $1 ]]; then why=special
  else why=denied; fi
}

# read PATH MOST
read_file() {
  local size
  exact "$1" || return 0
  if [[ ! -f $answer || ! -r $answer ]]; then
    trouble "$answer"
    # Unless it has come to be in between, which would read as denied.
    if [[ ! -f $answer || ! -r $answer ]]; then no "$why"; return; fi
  fi
  size_of "$answer"
  if (($2 && size > $2)); then ok large "$size"; return; fi
  printf 'ok %s\n' "$size"
  encoded <"$answer"
  printf '.\n'
}

# An absolute path was resolved before: a link in it was put there since.
exact() {
  absolute "$1" && real "$path"
  if [[ $1 != /* || $answer == "$1" ]]; then return 0; fi
  no link
  return 1
}

# write PATH SIZE [BASE64]: whole or not at all. Without the data it is the rest of the input. In a
# subshell that stands in the folder: whoever replaces the folder by a link does not move it.
write_file() (
  local draft facts= name folder
  exact "$1" || return 0
  if [[ -d $answer ]]; then no folder; return; fi
  folder=${answer%/*} name=./${answer##*/}
  if ! mkdir -p -- "$folder/"; then trouble "$answer"; no "${why/missing/denied}"; return; fi
  if ! builtin cd -P -- "$folder/"; then trouble "$answer"; no "${why/missing/denied}"; return; fi
  if [[ $(readlink -n /proc/self/cwd; printf .) != "${folder:-/}." || -L $name ]]; then no link; return; fi
  draft=${answer##*/}
  draft=./.${draft:0:100}.$$.$RANDOM.new
  if [[ -e $name ]]; then facts=$(stat -c '%a %u:%g' -- "$name"); fi
  set -C
  if (($# > 2)); then base64 -d <<<"$3"; else head -c "$2"; fi >"$draft"
  if [[ ! -e $draft ]]; then trouble "$answer"; no "${why/missing/denied}"; return; fi
  size_of "$draft"
  if [[ $size != "$2" ]]; then rm -f -- "$draft"; no cut "$size"; return; fi
  if [[ -n $facts ]]; then chown -- "${facts#* }" "$draft"; chmod -- "${facts% *}" "$draft"; fi
  sync -- "$draft"
  if ! mv -f -- "$draft" "$name"; then rm -f -- "$draft"; no denied; return; fi
  sync -- .
  ok written
)

stat_file() {
  local kind=other found
  absolute "$1" && real "$path"
  if ! found=$(stat -L -c '%s %Y' -- "$answer"); then
    trouble "$answer"
    if ! found=$(stat -L -c '%s %Y' -- "$answer"); then no "$why"; return; fi
  fi
  if [[ -f $answer ]]; then kind=file; elif [[ -d $answer ]]; then kind=folder; fi
  printf 'ok %s %s\n' "$kind" "$found"
  say "$answer"
  printf '.\n'
}

# Globs are matched as this bash matches them.
trace() {
  local given found one IFS=
  printf 'ok\n'
  for given; do
    found=("$given")
    if [[ $given == *[*?[]* ]]; then
      found=($given)
      if ((${#found[@]} > 1000)); then printf '=0\n'; continue; fi # too many to judge
      # Nothing fits it, or there is a file of that very name too.
      if [[ $found == "$given" ]]; then
        found=("${given//\\/}")
      elif [[ -e $given ]]; then
        found+=("$given")
      fi
    fi
    printf '=%s\n' "${#found[@]}"
    for one in "${found[@]}"; do real "$one"; say "$answer"; done
  done
  printf '.\n'
}

# find PATH NAME: files below, with time and size where `find` can say it, else asked for here.
find_files() {
  local name=() kinds
  absolute "$1" && real "$path"
  if [[ ! -e $answer ]]; then no missing; return; fi
  if [[ -n $2 ]]; then name=(-name "$2"); fi
  kinds=(\( -type f -o -type l -exec test -f {} \; \))
  set -- "$answer" ! -path "$answer" -type d \( -name .git -o -name node_modules \
    -o -name __pycache__ -o -name .venv \) -prune -o "${kinds[@]}" "${name[@]}"
  printf 'ok\n'
  say "$answer"
  if find / -maxdepth 0 -printf ''; then
    find "$@" -printf '%T@ %s %p\0'
  else
    find "$@" -print0 | while IFS= read -r -d '' one; do
      facts=$(stat -L -c '%Y %s' -- "$one") && printf '%s %s\0' "$facts" "$one"
    done
  fi | head -c 30000000 | encoded
  printf '.\n'
}

# grep PATTERN LIMIT SECONDS; the input has the files, each ended by a NUL. -E is busybox's.
grep_files() {
  local pattern=$1 limit=$2 one found got
  got=$({ printf '' | grep -P -e "$pattern"; } 2>&1)
  if (($? < 2)); then
    printf 'ok\n'
    # Of itself, grep would read the input when there is no file.
    timeout "$3" xargs -0 grep -P -n -H -Z -I -m "$limit" -e "$pattern" -- /dev/null |
      head -c 8000000 | encoded
    ((PIPESTATUS[0] == 124)) && say late
    printf '.\n'
    return
  fi
  if printf x | grep -q -P -e x; then no pattern "$got"; return; fi
  if [[ $pattern == *'(?'* || $pattern =~ [*+?}][?+] || $pattern =~ \\[ADZpx] ||
    $pattern =~ \[[^]]*\\[dsw] ]]; then
    no pattern 'grep has no -P there'
    return
  fi
  pattern=${pattern//\\d/[0-9]}
  printf '' | grep -E -e "$pattern"
  if (($? > 1)); then no pattern 'not for grep -E'; return; fi
  printf 'ok\n'
  while IFS= read -r -d '' one; do
    IFS= read -r -d '' -n 8192 text <"$one" && ((${#text} < 8192)) && continue
    grep -n -E -m "$limit" -e "$pattern" -- "$one" | while IFS= read -r found; do
      printf '%s\0%s\n' "$one" "$found"
    done
  done | head -c 8000000 | encoded
  printf '.\n'
}

# --- requests

# hello WORKSPACE IDLE MOST NONCE MAKE [NAME=VALUE ...]: whom we serve. The spool is made, with a
# mark that tells it from one that is made anew after a loss. Without a NONCE we also say whether
# somebody has used it.
hello() {
  local boot= used=0 file
  idle=$2 most=$3 expected=$4
  workspace=$HOME
  absolute "$1" && real "$path" && workspace=$answer
  if (($5)); then mkdir -p -- "$workspace"; fi
  shift 5
  if (($#)); then export "$@"; fi
  mkdir -p -m 700 -- "$spool/private"
  [[ -p $spool/private/pause ]] || mkfifo -m 600 "$spool/private/pause"
  read -r boot </proc/sys/kernel/random/boot_id
  if [[ ! -s $spool/boot ]]; then
    printf '%s %s-%s\n' "${boot:-none}" "$EPOCHREALTIME" "$RANDOM$RANDOM" >"$spool/boot.$$"
    mv -f -- "$spool/boot.$$" "$spool/boot"
    sync -- "$spool/boot"
  fi
  read -r same nonce <"$spool/boot"
  if [[ $same == "${boot:-none}" && ( -z $expected || $expected == "$nonce" ) ]]; then
    same=1
  else
    same=0
  fi
  if [[ -z $expected ]]; then
    for file in "$spool"/*.s "$spool"/state.*; do [[ -e $file ]] && used=1; done
  fi
  printf 'ok %s %s %s\n' "$nonce" "$same" "$used"
  say "$workspace"
  say "$HOME"
  printf '.\n'
}

serve() {
  local line words word number
  while IFS= read -r line; do
    set -f
    words=($line)
    set +f
    for number in "${!words[@]}"; do
      word=${words[number]}
      if [[ $word == =* ]]; then
        word=${word#=}
        if [[ $word == *\\* ]]; then printf -v word %b "$word"; fi
        words[number]=$word
      fi
    done
    set -- "${words[@]:1}"
    case ${words[0]} in
      hello) hello "$@" ;;
      begin) begin "$@" ;;
      text) head -c "$2" >"$spool/$1.c.new" && mv -f -- "$spool/$1.c.new" "$spool/$1.c"; ok put ;;
      look) look "$1"; ok "$facts" ;;
      report) report "$@" ;;
      news) news "$@" ;;
      background) background ;;
      stop) launch stop "$@"; ok stopping ;;
      send) send "$@" ;;
      void) void "$1" ;;
      remove) rm -f -- "$spool/$1".{c,o,e,f,i,k,r,s,v}; ok removed ;;
      end) if daemon_lives; then printf 'end -\n' 1<>"$spool/private/in"; fi; ok end ;;
      where) stands "$workspace"; cd /; printf 'ok\n'; say "$folder"; printf '.\n' ;;
      clear) clear_ended ;;
      destroy) destroy_all ;;
      real) absolute "$1"; real "$path"; printf 'ok\n'; say "$answer"; printf '.\n' ;;
      trace) trace "$@" ;;
      stat) stat_file "$1" ;;
      read) read_file "$@" ;;
      write) write_file "$@" ;;
      find) find_files "$@" ;;
      grep) grep_files "$@" ;;
      *) no verb ;;
    esac
  done
}

declare -A handed=()
cd /
serve
if [[ -n $listener ]]; then kill "$listener"; fi
exit 0
}
