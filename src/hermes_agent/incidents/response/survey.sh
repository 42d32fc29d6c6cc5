echo '#@supervisor'; command -v supervisorctl >/dev/null && supervisorctl status 2>/dev/null
echo '#@program'; grep -HsE '^ *(\[(program|supervisorctl|supervisord)[]:]|command|directory|environment|std(out|err)_logfile)' \
  /etc/supervisor/conf.d/* /etc/supervisord.d/* /etc/supervisord.conf /etc/supervisor/supervisord.conf
echo '#@unit'; command -v systemctl >/dev/null && grep -HsE \
  '^ *(ExecStart|Environment(File)?|Standard(Output|Error)|PIDFile|Requires|Wants|BindsTo|WorkingDirectory) *=' @units@
echo '#@main'; command -v systemctl >/dev/null && {
  systemctl show -p Id,LoadState,MainPID '*.service' 2>/dev/null
  for n in @names@ $(find /etc/systemd/system -maxdepth 1 -type f -name '*.service' -printf '%f '); do
    echo; systemctl show -p Id,LoadState,MainPID "$n" 2>/dev/null; done; }
echo '#@cgroup'; grep -HsoE '[^/]+\.service$' /proc/[0-9]*/cgroup
echo '#@script'; ls -d /etc/init.d/* 2>/dev/null; grep -HsE '^[^#]*/[a-z]' @scripts@
echo '#@runit'; command -v sv >/dev/null && for n in @names@; do sv status "$n" 2>/dev/null; done
echo '#@pidfile'; grep -Hs '' /run/*.pid /run/*/*.pid
echo '#@container'; for c in docker podman; do command -v $c >/dev/null || continue
  case $c in docker) timeout 5 docker ps -a --format '{{.Names}} {{.State}} docker' 2>/dev/null;;
  podman) timeout 5 podman ps -a --format '{{.Names}} {{.State}} podman' 2>/dev/null;; esac; done
echo '#@stat'; cat /proc/[0-9]*/stat 2>/dev/null | awk '{p = $1; sub(/^.*\) /, ""); print p, $2}'
echo '#@args'; grep -azHs '' /proc/[0-9]*/cmdline | tr '\0' '\n'
echo '#@listen'; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" {split($2, a, ":"); print $10, a[2]}'
echo '#@open'; find /proc/[0-9]*/fd -mindepth 1 -maxdepth 1 \( -lname 'socket:*' -o -lname '/*log*' \
  -o -lname '/*.err' -o -lname '/*.out' \) -printf '%h %l\n' 2>/dev/null | sort -u | head -n 3000
echo '#@place'; ls -dp @places@ 2>/dev/null; true
