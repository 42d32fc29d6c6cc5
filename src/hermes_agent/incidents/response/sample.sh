echo '#@main'; @mains@
echo '#@stat'; cat /proc/[0-9]*/stat 2>/dev/null | awk '{p = $1; sub(/^.*\) /, ""); print p, $2, $12 + $13, $22 * 4, $1}'
echo '#@open'; find /proc/[0-9]*/fd -mindepth 1 -maxdepth 1 -printf '%h\n' 2>/dev/null | sort | uniq -c | awk '{split($2, a, "/"); print a[3], $1}'
echo '#@room'; df -Pk 2>/dev/null | awk 'NR > 1 {print $6, $3, $4}'; echo '#@files'; df -Pi 2>/dev/null | awk 'NR > 1 && $2 > 0 {print $6, $3, $4}'
echo '#@size'; @sizes@
echo '#@time'; cut -d ' ' -f 1 /proc/uptime; true
