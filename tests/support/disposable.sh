# Runs a command as root in a copy of this machine: its own processes, network and mounts, and files
# that are gone afterwards; /upper has those that were changed.
#     unshare --mount --pid --net --fork --propagation private bash disposable.sh COMMAND…
set -e
here=$PWD
folder=$(mktemp -d)
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/changed" "$folder/work" "$folder/root"
mount -t overlay overlay \
  -o "lowerdir=/,upperdir=$folder/changed,workdir=$folder/work" "$folder/root"
cd "$folder/root"
for kept in dev sys; do mount --rbind "/$kept" "$kept"; done
mkdir -p upper before
mount --bind "$folder/changed" upper
mount -t proc proc proc
pivot_root . before
umount -l /before
cd "$here"
ip link set lo up
exec "$@"
