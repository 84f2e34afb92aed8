#!/bin/bash
# What sacct prints of jobs that a real slurmdbd remembers. The tests' Slurm has no database, so this wants a root
# directory of its own (about 600 MB), and leaves sacct.json and sacct.txt in it:
#
#     debootstrap --include=slurmdbd,mariadb-server,slurmctld,slurmd,slurm-client,slurm-wlm-mysql-plugin,munge \
#         forky ROOT MIRROR /usr/share/debootstrap/scripts/sid
#     tests/captured/capture_sacct.sh ROOT
#
# Everything runs in namespaces that end with it; nothing outside is reached.
set -euo pipefail
root=$(realpath "${1:?the root directory}")
if [ -z "${APART:-}" ]; then
    exec env APART=1 unshare --mount --pid --fork --kill-child --net --uts "$0" "$root"
fi

# Slurm asks for names only of a machine that has more than loopback's own address.
python3 - <<'PYTHON'
import fcntl, socket, struct
door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(door, 0x8914, struct.pack("16sh", b"lo", 0x41))
fcntl.ioctl(door, 0x8916, struct.pack("16sH2s4s8x", b"lo:1", socket.AF_INET, b"\0\0", socket.inet_aton("10.9.9.9")))
PYTHON
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
hostname acct
ulimit -c 0
mkdir -p "$root"/etc/slurm "$root"/srv/{db,ctld,log} "$root/run/mysqld"
echo "127.0.0.1 acct localhost" > "$root/etc/hosts"
printf 'passwd: files\ngroup: files\nhosts: files\n' > "$root/etc/nsswitch.conf"
echo CgroupPlugin=disabled > "$root/etc/slurm/cgroup.conf"
cat > "$root/etc/slurm/slurmdbd.conf" <<'CONF'
AuthType=auth/none
DbdHost=acct
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=x
CONF
chmod 600 "$root/etc/slurm/slurmdbd.conf"
cat > "$root/etc/slurm/slurm.conf" <<'CONF'
ClusterName=acct
SlurmctldHost=acct(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
ProctrackType=proctrack/linuxproc
StateSaveLocation=/srv/ctld
SlurmdSpoolDir=/srv/slurmd-%n
SlurmdPidFile=/run/slurmd-%n.pid
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
NodeName=real-[1-4] NodeHostname=acct NodeAddr=127.0.0.1 Port=[17001-17004] CPUs=1
PartitionName=train Nodes=ALL Default=YES
CONF
exec chroot "$root" /bin/bash -euo pipefail <<'INSIDE'
chown mysql /run/mysqld /srv/db
mariadb-install-db --user=mysql --datadir=/srv/db --skip-test-db > /srv/log/install 2>&1
mariadbd --user=mysql --datadir=/srv/db --bind-address=127.0.0.1 > /srv/log/mariadbd 2>&1 &
until mariadb -e "select 1" > /srv/log/mariadb 2>&1; do sleep 1; done
mariadb -e "create database slurm_acct_db; create user slurm@localhost identified by 'x';
            grant all on slurm_acct_db.* to slurm@localhost"
slurmdbd -D > /srv/log/slurmdbd 2>&1 &
until sacctmgr -i add cluster acct > /srv/log/sacctmgr 2>&1; do sleep 1; done
slurmctld -D > /srv/log/slurmctld 2>&1 &
for n in 1 2 3 4; do slurmd -D -N "real-$n" > "/srv/log/slurmd-$n" 2>&1 & done
until [ "$(sinfo -h -t idle -o %D 2> /srv/log/sinfo)" = 4 ]; do sleep 1; done
sbatch -N2 -J llama -o /dev/null --wrap "sleep 3"
sbatch -N1 -J 'a|b' -a 3-4 -t 60 -o /dev/null --wrap "sleep 2"
sleep 6
sbatch -N1 -J fails -o /dev/null --wrap "exit 3"
ended=$(sbatch --parsable -N3 -J ended -o /dev/null --wrap "sleep 100")
never=$(sbatch --parsable -N4 -J never -o /dev/null --wrap true)
sleep 6
scancel "$never"
scancel "$ended"
sbatch -N1 -J runs -o /dev/null --wrap "sleep 100"
sbatch -N1 -J waits -H -o /dev/null --wrap true
sleep 12
sacct -X -a -S now-1hour --json > /sacct.json
sacct -X -a -S now-1hour --parsable2 -o JobIDRaw,Submit,NNodes,ElapsedRaw,TimelimitRaw > /sacct.txt
INSIDE
