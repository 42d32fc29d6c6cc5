# Prepares the views of a far machine, for looking and for the workspace, for `daemon.sh` and `agent.sh`.
#
#   SPOOL WORKSPACE BWRAP SIZE FILTER COVERS
#
# The last two are numbers of files that `daemon.sh` opens: the filter, and what is covered later, which
# is nothing here.
#
# Input, each ended by a NUL: filters of system calls in base64 (for looking, the same without signals,
# for the workspace), `landlock.py`, options of bubblewrap, an empty word, and paths that hold secrets, as
# in the table of secret files. Written are KIND.view, KIND.bpf, KIND.covers, KIND.limits and KIND.words.
# Output: why a view for the workspace would hold nothing, if so.
spool=$(readlink -f -- "$1") named=$1 workspace=$(readlink -f -- "$2") bwrap=$3 size=$4 filter=$5 covers=$6
shopt -s nullglob
umask 077
IFS=
mapfile -d '' -t given

put() { cat >"$spool/$1.$$" && mv -f -- "$spool/$1.$$" "$spool/$1"; }

hide() {
  if [[ -d $1 ]]; then
    options+=(--tmpfs "$1" --remount-ro "$1")
  else
    options+=(--ro-bind /dev/null "$1")
  fi
}

options=()
for ((at = 4; at < ${#given[@]}; at++)); do
  if [[ -z ${given[at]} ]]; then break; fi
  options+=("${given[at]}")
done
secrets=("${given[@]:at + 1}")
if ((EUID == 0)); then options+=(--cap-add CAP_DAC_READ_SEARCH); fi
common=("${options[@]}") limit=()
if [[ $("$bwrap" --help 2>&1) == *--size* ]]; then limit=(--size "$size"); fi

python=$(command -v python3) && python=$("$python" -I -S -c 'import sys; print(sys.executable)')
guard=$spool/landlock.py old=
printf %s "${given[3]}" | put landlock.py
old=$("$python" -I -S -c 'import runpy, sys; print(runpy.run_path(sys.argv[1])["missing"]())' "$guard") || python=

homes=(~) wide=
while IFS=: read -r _ _ user _ _ home _; do
  case $home in / | /usr* | /bin* | /sbin* | /lib* | /etc* | /dev* | /proc* | /sys*) continue ;; esac
  if ((user == 0 || (user >= 1000 && user < 65534))); then homes+=("$home"); fi
done < <(getent passwd || cat /etc/passwd)
declare -A found=()
for home in "${homes[@]}"; do
  cd -P -- "$home" 2>/dev/null || continue
  if [[ $PWD/ == "${workspace%/}"/* ]]; then wide='the workspace holds a whole home'; fi
  for row in "${secrets[@]}"; do
    paths=(${row#'~/'})
    if [[ -e $row ]]; then paths=("$row"); fi # a name may look like a pattern
    for path in "${paths[@]}"; do
      if [[ ! -e $path ]]; then continue; fi
      path=$(readlink -f -- "$path")
      # A certificate without its key is no secret.
      if [[ $row == "$path" && $path == *.pem ]] && ! grep -q 'PRIVATE KEY' "$path"; then continue; fi
      found[$path]=1
    done
  done
done
for one in /usr /etc /var; do
  if [[ $one/ == "${workspace%/}"/* ]]; then wide='the workspace holds the system'; fi
done
printf %s "$wide"

# They are counted for each user, or on newer kernels for each view.
cd / && others=$(find /proc -mindepth 3 -maxdepth 3 -path '/proc/[0-9]*/task/*' -user "$EUID" 2>/dev/null | wc -l)

# prepare KIND BIND FILTER: with the options for the workspace and the scratch folder.
prepare() {
  local kind=$1 bind=$2 allowed=$3 scratch=$spool/$1.scratch tops=() inner=() writable=() top shown above=/nonexistent
  options=("${common[@]}")
  mkdir -p -- "$scratch"
  set -- ~/.cache/hermes "/tmp/hermes-$UID" ~/.hermes "${HERMES_HOME:-/nonexistent}"
  if [[ $kind == workspace ]]; then
    set -- "$@" /run
    writable=("$workspace" /dev/shm) options+=(--bind "$workspace" "$workspace" "${limit[@]}" --tmpfs /dev/shm)
  fi
  # Landlock lets no signal out. Without it a look can signal nothing at all; without Python, which it
  # needs, and for the workspace, numbers of processes inside are of their own, so that those outside
  # cannot be named.
  if [[ -z $python || ( -n $old && $kind == workspace ) ]]; then
    options+=(--unshare-pid --as-pid-1 --seccomp "$filter")
  else
    inner=("$python" -I -S "$guard" scope "$filter" "$covers" /dev/{null,zero,full,tty,pts,ptmx} \
      "$named/$kind.scratch" "$named/$kind.look/"{out,1,2} "${writable[@]}" --)
  fi

  # Spools of this user, homes of Hermes, and services.
  for top; do
    if [[ -d $top ]]; then top=$(readlink -f -- "$top") tops+=("$top") options+=(--tmpfs "$top"); fi
    if [[ $workspace == "$top"/* ]]; then options+=("$bind" "$workspace" "$workspace"); fi
    if [[ $spool == "$top"/* ]]; then options+=(--ro-bind "$spool" "$spool"); fi
  done
  if [[ $kind == workspace ]]; then
    options+=(--bind "$scratch" "$scratch")
    shown=$(readlink -f /etc/resolv.conf) && options+=(--ro-bind-try "$shown" "$shown")
  else
    options+=("${limit[@]}" --tmpfs "$scratch")
  fi
  options+=(--setenv TMPDIR "$named/$kind.scratch")

  while read -r -d '' path; do
    if [[ $path != "$above"/* ]]; then hide "$path" && above=$path; fi
  done < <(printf '%s\0' "${!found[@]}" | sort -z)
  hide "$spool/private"
  for top in "${tops[@]}"; do options+=(--remount-ro "$top"); done

  printf '%s\0' "${options[@]}" | put "$kind.view"
  base64 -d <<<"$allowed" | put "$kind.bpf"
  printf '%s -\n' "$((others + 1000))" | put "$kind.limits"
  printf - | put "$kind.covers"
  printf %s "$workspace" | put "$kind.root"
  printf '%s\0' "$kind" "$bwrap" "${inner[@]}" | put "$kind.words"
}

if [[ -n $old ]]; then given[0]=${given[1]}; fi
prepare read-only --ro-bind "${given[0]}"
prepare workspace --bind "${given[2]}"
