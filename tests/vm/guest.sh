#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Inside the guest: set it up, run the tests, report, power off.
#   guest.sh plain    as PID 1, no service manager: tests run as root
#   guest.sh systemd  from a unit, systemd is PID 1: tests run as user boxtest, and
#                     as root those of the installed service
# If this script fails before it reports, there is no result: the host takes that
# for a failure.
set -euo pipefail

boot=$1
repo=/boxd
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# What a service manager would have done, for the boot that has none.
plain_setup() {
    mount -t proc -o nosuid,nodev,noexec proc /proc
    mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
    mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /run
    mkdir -p /dev/pts /dev/shm /dev/mqueue /run/lock
    mount -t devpts -o nosuid,noexec,gid=5,mode=620,ptmxmode=666 devpts /dev/pts
    mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /dev/shm
    mount -t mqueue -o nosuid,nodev,noexec mqueue /dev/mqueue
    mount -t cgroup2 -o nosuid,nodev,noexec,nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup
    mount --make-rshared / # as on any machine that systemd started
    ln -s /proc/self/fd /dev/fd
    ln -s fd/0 /dev/stdin
    ln -s fd/1 /dev/stdout
    ln -s fd/2 /dev/stderr
    hostname boxvm
    ip link set lo up
    ulimit -n 524288
    ulimit -Sn 1024
    install -d -o boxtest -g boxtest -m 700 /run/user/1000

    local controller
    for controller in $(</sys/fs/cgroup/cgroup.controllers); do
        echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
    done

    # A delegated group. Its child "run", which holds the user's processes, is
    # made by the user, so every file in it is the user's own.
    local group=/sys/fs/cgroup/boxtest
    mkdir $group
    chown boxtest:boxtest $group $group/cgroup.{procs,threads,subtree_control}
    setpriv --reuid=boxtest --regid=boxtest --clear-groups bash -ec "
        echo '+cpu +memory +pids' >$group/cgroup.subtree_control
        mkdir $group/run"
    export BOX_TEST_USER_CGROUP=$group/run
}

# Both boots lack udev, so drivers without a user that asks for them by name are
# loaded here, and device nodes that anyone may open are opened up.
common_setup() {
    modprobe -a virtio_net tun overlay loop
    chmod 666 /dev/net/tun /dev/fuse

    # A route that leads nowhere: passt wants an interface to take its addresses from.
    ip link set eth0 up
    ip address add 10.0.2.15/24 dev eth0
    ip route add default via 10.0.2.2
    echo nameserver 10.0.2.3 >/etc/resolv.conf

    # From here on the kernel's log is about the tests, and not put between their lines.
    dmesg --clear
    dmesg --console-level 1
}

# A file system with project quota, for tests of quotas on directories that are mounted.
project_setup() {
    local image=/var/tmp/project.img
    modprobe -a quota_v2
    truncate -s 256M $image
    mkfs.ext4 -q -O quota,project -E quotatype=prjquota $image
    mkdir -p /mnt/project
    mount -o loop,prjquota $image /mnt/project
}

# What was installed on the host's side, into its place, and what a package would do after that.
service_setup() {
    if [[ ! -d $repo/install ]]; then return; fi
    cp -r --preserve=mode,links "$repo/install/." /
    systemd-sysusers
    systemctl daemon-reload
}

if [[ $boot == plain ]]; then plain_setup; fi
common_setup
if [[ $boot == plain ]]; then project_setup; else service_setup; fi

export BOX_BUILD=$repo/build BOX_TEST_LANE=vm BOX_TEST_BOOT=$boot BOX_TEST_USER=boxtest
export BOX_TEST_ACCEL=tcg
if grep -q box.accel=kvm /proc/cmdline; then BOX_TEST_ACCEL=kvm; fi
export LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 COLUMNS=100

if [[ $boot == plain ]]; then
    install -d -m 755 /mnt/project/pytest
    export BOXD_TEST_PROJECT_DIR=/mnt/project/pytest
fi
mapfile -d '' -t arguments <"$repo/arguments.$boot"
# What is about protocols alone is the same on every kernel, and slow here.
of_http=(cli_daemon.py cli_skill.py http_hardening.py init.py pty.py relay.py rest_files.py rest_sessions.py
    rest_processes.py skill_store_kill.py skills.py skills_life.py skills_rpc.py skills_sessions.py stdio.py)
tests=(python3 -m pytest -v -rs --color=no -p no:cacheprovider
    "${of_http[@]/#/--ignore-glob=*test_}" -o testpaths=tests/integration "${arguments[@]}")

# The test user: in its delegated group, or in a login session as ssh would make it, where PAM sets
# XDG_RUNTIME_DIR and the bus address.
as_user() {
    if [[ $boot == plain ]]; then
        (
            echo "$BASHPID" >"$BOX_TEST_USER_CGROUP/cgroup.procs"
            exec setpriv --reuid=boxtest --regid=boxtest --clear-groups "$@" </dev/null
        )
    else
        local keep=BOX_BUILD,BOX_TEST_LANE,BOX_TEST_BOOT,BOX_TEST_USER,BOX_TEST_ACCEL
        keep+=,LANG,PYTHONUNBUFFERED,PYTHONDONTWRITEBYTECODE,COLUMNS
        # shellcheck disable=SC2016 # expanded by the login shell
        runuser --login --whitelist-environment="$keep" --command 'cd "$0" && exec "$@"' \
            -- boxtest "$repo" "$@" </dev/null
    fi
}

# Unit tests that want the controllers of cgroup v2, which the machine outside may not have,
# by each way to a group of one's own: root's, a delegated group, a scope. And those that want
# project quota, as root, each in a directory of its own.
unit_tests() {
    local name program
    export BOX_INIT=$BOX_BUILD/box-init
    for name in cgroup engine native native-roots; do
        program=$BOX_BUILD/tests/test-$name
        if [[ ! -x $program ]]; then continue; fi
        if [[ $boot == plain ]]; then timeout 600 "$program" </dev/null || return; fi
        as_user timeout 600 env BOX_INIT="$BOX_INIT" "$program" || return
    done
    if [[ $boot != plain ]]; then return; fi
    for name in storage roots-store readiness-native; do
        program=$BOX_BUILD/tests/test-$name
        if [[ ! -x $program ]]; then continue; fi
        mkdir "/mnt/project/$name"
        BOXD_TEST_PROJECT_DIR=/mnt/project/$name timeout 600 "$program" </dev/null || return
    done
}

# pytest's 5, no test, counts only if the others had none either.
run_tests() {
    local rc=0
    "$@" </dev/null || rc=$?
    if ((status == 5 || (status == 0 && rc != 5))); then status=$rc; fi
}

cd "$repo"
echo "boxd-vm: $boot boot, kernel $(uname -r), up $(cut -d. -f1 /proc/uptime) s"
status=5 units=passed
unit_tests || units=failed
if [[ $boot == plain ]]; then
    export HOME=/root USER=root LOGNAME=root
    run_tests "${tests[@]}"
else
    # Only the modules of this boot are read: that is half of the time.
    run_tests as_user "${tests[@]}" -o python_files=test_systemd_user.py
    export HOME=/root USER=root LOGNAME=root
    run_tests "${tests[@]}" -o python_files=test_systemd_service.py
fi
if [[ $units == failed ]]; then
    echo "boxd-vm: unit tests failed"
    status=1
fi
if ((status != 0)); then
    echo "boxd-vm: kernel warnings during the tests, the last 20:"
    dmesg --level=emerg,alert,crit,err,warn | tail -n 20
fi

# The result has a serial port for itself, where no test's output can look like one.
stty -F /dev/ttyS1 raw
echo "status $status" >/dev/ttyS1
busybox poweroff -f
sleep infinity # PID 1 must not exit while the power goes off
