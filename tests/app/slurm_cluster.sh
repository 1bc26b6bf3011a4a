#!/bin/bash
# Four Slurm hosts in namespaces on this machine, which share its disk: each has
# a network and a name of its own, joined by a bridge to "head", where the
# controller and the caller's commands run.
#
#   unshare -m -n -u -p -f --mount-proc bash slurm_cluster.sh DIR COMMAND...
#
# DIR is an empty folder for Slurm's state. All ends with this process. Exit
# code 77: there can be no such cluster here.
set -u
folder=$1
shift
skip() { echo "skipped: $1"; exit 77; }
for program in slurmctld slurmd munged sbatch ip; do
  command -v $program >/dev/null || skip "needs $program (Debian: slurmctld slurmd slurm-client munge iproute2)"
done
mount --make-rprivate / 2>/dev/null || skip "mount namespaces need root"
mkdir -p "$folder/state" "$folder/munge"
chmod 755 "$folder"
chown munge "$folder/munge"
mount -t tmpfs tmpfs /run/munge 2>/dev/null || { mkdir -p /run/munge && mount -t tmpfs tmpfs /run/munge; } || skip "cannot mount"
chown munge /run/munge
export SLURM_CONF=$folder/slurm.conf
cat > "$SLURM_CONF" <<CONF
ClusterName=dtune
SlurmctldHost=head(10.99.0.100)
SlurmctldPort=16817
AuthType=auth/munge
AuthInfo=cred_expire=5
SlurmUser=root
SlurmdUser=root
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=30
KillWait=5
MinJobAge=300
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
$(for i in 1 2 3 4; do echo "NodeName=n$i NodeAddr=10.99.0.$i NodeHostname=n$i CPUs=2 RealMemory=1000"; done)
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP
PartitionName=low Nodes=n[1-4] PriorityTier=1 PreemptMode=REQUEUE GraceTime=6 MaxTime=60
PartitionName=high Nodes=n[1-4] PriorityTier=10 PreemptMode=OFF
CONF
hostname head
ip link set lo up
ip link add br0 type bridge 2>/dev/null || skip "no bridge in this kernel"
ip addr add 10.99.0.100/24 dev br0
ip link set br0 up
printf '127.0.0.1 localhost\n10.99.0.100 head\n' > "$folder/hosts"
for i in 1 2 3 4; do echo "10.99.0.$i n$i" >> "$folder/hosts"; done
mount --bind "$folder/hosts" /etc/hosts
su -s /bin/sh munge -c "munged --socket=/run/munge/munge.socket.2 --seed-file=$folder/munge/seed --log-file=$folder/munge/log --pid-file=/run/munge/munged.pid" || skip "munged does not start"
slurmctld -c || skip "slurmctld does not start"
for i in 1 2 3 4; do
  unshare -n -u sh -c "hostname n$i; echo \$\$ > $folder/host.$i; exec sleep 100000" &
done
for i in 1 2 3 4; do
  for _ in $(seq 100); do
    host=$(cat "$folder/host.$i" 2>/dev/null)
    [ -n "$host" ] && [ "$(readlink /proc/"$host"/ns/net)" != "$(readlink /proc/self/ns/net)" ] && break
    sleep .05
  done
  ip link add v$i type veth peer name e$i
  ip link set e$i netns "$host"
  ip link set v$i master br0 up
  mkdir -p "$folder/spool.n$i"
  nsenter -t "$host" -n -u sh -c "ip link set lo up; ip addr add 10.99.0.$i/24 dev e$i; ip link set e$i up; slurmd -N n$i" || skip "slurmd does not start"
done
for _ in $(seq 200); do
  [ "$(sinfo -h -p main -t idle -o %D 2>/dev/null)" = 4 ] && break
  sleep .1
done
[ "$(sinfo -h -p main -t idle -o %D)" = 4 ] || skip "the hosts do not come up: $(sinfo -N -p main -h)"
"$@"
