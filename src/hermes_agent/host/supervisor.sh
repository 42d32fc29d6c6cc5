#!/usr/bin/env bash
# Restarts the runtime of a home after a crash:
#     supervisor.sh NOTE LOG SOCKET LOCK PID MOST WITHIN FIRST COMMAND…
# PID is the runtime to watch first. The first restart comes FIRST seconds after the crash, each
# further one after twice as long; after MOST restarts WITHIN so many seconds it gives up. A runtime
# that stops in order removes its SOCKET; then this ends, too. NOTE holds our process id, or 0 and
# why we gave up. Bash, because it stays at a few megabytes and starts no process while it waits.
note=$1 log=$2 socket=$3 lock=$4 pid=$5 most=$6 within=$7 first=$8
shift 8
every=2
crashes=()
trap '' HUP
exec {nap}<> <(:)

# Prints nothing; sets `begun` to when the process began. A zombie is not alive.
is_alive() {
    local line fields
    read -r line 2>/dev/null <"/proc/$1/stat" || return 1
    read -ra fields <<<"${line##*) }"
    begun=${fields[19]}
    [[ ${fields[0]} != [ZX] ]]
}

say() {
    printf '%(%F %T)T,000 WARNING hermes.supervisor: %s\n' -1 "$1" >>"$log"
}

watch_runtime() {
    local begun same
    is_alive "$pid" || return
    same=$begun
    while is_alive "$pid" && [[ $begun == "$same" ]]; do
        read -rt "$every" -u "$nap"
    done
}

# Whether another runtime has the home by now, such as one that a command started.
another() {
    local owner begun
    read -r owner 2>/dev/null <"$lock" || [[ $owner ]] || return 1
    [[ $owner != "$pid" ]] && is_alive "$owner" && pid=$owner
}

echo $$ >"$note" || exit 1
while :; do
    watch_runtime
    another && continue
    if [[ ! -e $socket ]]; then
        rm -f -- "$note"
        exit 0
    fi
    printf -v now '%(%s)T' -1
    recent=("$now")
    for time in "${crashes[@]}"; do
        ((now - time < within)) && recent+=("$time")
    done
    crashes=("${recent[@]}")
    count=${#crashes[@]}
    if ((count > most)); then
        say "the runtime ended $count times within $((within / 60)) minutes; it is not restarted again"
        echo "0 it ended $count times within $((within / 60)) minutes, and is not restarted again" >"$note"
        exit 1
    fi
    seconds=$((first * 2 ** (count - 1)))
    say "the runtime (pid $pid) was killed or crashed; restarting it in $seconds s"
    read -rt "$seconds" -u "$nap"
    another && continue
    "$@" </dev/null >/dev/null 2>>"$log" {nap}>&- &
    pid=$!
done
