# Prepares the view of a far machine in which commands only look, for `daemon.sh` and `agent.sh`.
#
#   SPOOL WORKSPACE BWRAP SIZE FILTER COVERS
#
# The last two are numbers of files that `daemon.sh` opens: the filter, and what is covered later, which
# is nothing here.
#
# Input, each ended by a NUL: the filter of system calls in base64, the one that refuses signals too,
# `landlock.py`, options of bubblewrap, an empty word, and paths that hold secrets, as in the table of
# secret files. Written are read-only.view, read-only.bpf, read-only.covers, read-only.limits and
# read-only.words.
spool=$(readlink -f -- "$1") named=$1 workspace=$(readlink -f -- "$2") bwrap=$3 size=$4 filter=$5 covers=$6
shopt -s nullglob
umask 077
IFS=
mapfile -d '' -t given
kind=read-only scratch=$spool/read-only.scratch
mkdir -p -- "$scratch"

put() { cat >"$spool/$1.$$" && mv -f -- "$spool/$1.$$" "$spool/$1"; }

hide() {
  if [[ -d $1 ]]; then
    options+=(--tmpfs "$1" --remount-ro "$1")
  else
    options+=(--ro-bind /dev/null "$1")
  fi
}

options=()
for ((at = 3; at < ${#given[@]}; at++)); do
  if [[ -z ${given[at]} ]]; then break; fi
  options+=("${given[at]}")
done
secrets=("${given[@]:at + 1}")
if ((EUID == 0)); then options+=(--cap-add CAP_DAC_READ_SEARCH); fi

# Landlock lets no signal out. Without it nothing can be signalled at all; without Python, which it
# needs, numbers of processes inside are of their own, so that those outside cannot be named.
python=$(command -v python3) && python=$("$python" -I -S -c 'import sys; print(sys.executable)')
guard=$spool/landlock.py allowed=${given[0]} inner=()
printf %s "${given[2]}" | put landlock.py
old=$("$python" -I -S -c 'import runpy, sys; print(runpy.run_path(sys.argv[1])["missing"]())' "$guard")
if (($?)); then
  options+=(--unshare-pid --as-pid-1 --seccomp "$filter")
else
  if [[ -n $old ]]; then allowed=${given[1]}; fi
  inner=("$python" -I -S "$guard" scope "$filter" "$covers" /dev/{null,zero,full,tty,pts,ptmx} "$named/$kind.scratch" \
    "$named/$kind.look/"{out,1,2} --)
fi

# Spools of this user, and homes of Hermes.
tops=()
for top in ~/.cache/hermes "/tmp/hermes-$UID" ~/.hermes "${HERMES_HOME:-/nonexistent}"; do
  if [[ -d $top ]]; then top=$(readlink -f -- "$top") tops+=("$top") options+=(--tmpfs "$top"); fi
  for shown in "$workspace" "$spool"; do
    if [[ $shown == "$top"/* ]]; then options+=(--ro-bind "$shown" "$shown"); fi
  done
done
if [[ $("$bwrap" --help 2>&1) == *--size* ]]; then options+=(--size "$size"); fi
options+=(--tmpfs "$scratch" --setenv TMPDIR "$named/$kind.scratch")

homes=(~)
while IFS=: read -r _ _ user _ _ home _; do
  case $home in / | /usr* | /bin* | /sbin* | /lib* | /etc* | /dev* | /proc* | /sys*) continue ;; esac
  if ((user == 0 || (user >= 1000 && user < 65534))); then homes+=("$home"); fi
done < <(getent passwd || cat /etc/passwd)
declare -A found=()
for home in "${homes[@]}"; do
  cd -- "$home" 2>/dev/null || continue
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
above=/nonexistent
while read -r -d '' path; do
  if [[ $path != "$above"/* ]]; then hide "$path" && above=$path; fi
done < <(printf '%s\0' "${!found[@]}" | sort -z)
hide "$spool/private"
for top in "${tops[@]}"; do options+=(--remount-ro "$top"); done

printf '%s\0' "${options[@]}" | put "$kind.view"
base64 -d <<<"$allowed" | put "$kind.bpf"
# They are counted for each user, or on newer kernels for each view.
cd / && others=$(find /proc -mindepth 3 -maxdepth 3 -path '/proc/[0-9]*/task/*' -user "$EUID" 2>/dev/null | wc -l)
printf '%s -\n' "$((others + 1000))" | put "$kind.limits"
printf - | put "$kind.covers"
printf '%s\0' "$kind" "$bwrap" "${inner[@]}" | put "$kind.words"
