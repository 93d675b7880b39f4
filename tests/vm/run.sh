#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run the integration tests in a VM with a stock Debian kernel and cgroup v2.
#   tests/vm/run.sh [pytest arguments]
# Two boots: "plain" (no service manager, tests start as root and drop to user
# boxtest themselves) and "systemd" (test_systemd_user.py as user boxtest, then
# test_systemd_service.py as root, with boxd installed).
# Environment:
#   BOX_BUILD       the build directory                    (default: build)
#   BOX_VM_TESTS    tests to run in place of tests/integration
#   BOX_VM_BOOTS    which boots                            (default: "plain systemd")
#   BOX_VM_TIMEOUT  seconds until a boot is killed         (default: 1800)
#   BOX_VM_KERNEL   kernel package                         (see mkimage.sh)
# Exit status 0 only if the tests of every boot passed.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
repo=$(readlink -f "$here/../..")
build=$(readlink -m "${BOX_BUILD:-$repo/build}")
tests=${BOX_VM_TESTS:-$repo/tests/integration}
cache=$repo/build/vm
read -ra boots <<<"${BOX_VM_BOOTS:-plain systemd}"
limit=${BOX_VM_TIMEOUT:-1800}

say() { echo "test-vm: $*"; }
die() {
    say "$*" >&2
    exit 1
}

install_tools() {
    local missing=() package
    for package in qemu-system-x86 mmdebstrap e2fsprogs; do
        dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q ^ii ||
            missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    say "installing ${missing[*]}"
    ((EUID == 0)) || die "installing packages needs root"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 install -y --no-install-recommends \
        "${missing[@]}" >/dev/null
}

# The image's name is a hash of everything that goes into it.
find_image() {
    local key
    key=$(cd "$here" && echo "${BOX_VM_KERNEL-}" |
        cat - packages mkimage.sh initramfs-init box-vm-test.service | sha256sum | cut -c1-16)
    image=$cache/image-$key
    exec 9>"$cache/lock"
    flock 9 # two runs at once build it once
    if [[ ! -d $image ]]; then
        ((EUID == 0)) || die "building the guest image needs root"
        say "building the guest image (first run, or its recipe changed)"
        apt-get -qq update
        "$here/mkimage.sh" "$image" 9>&-
    fi
    exec 9>&-
    touch "$image"
    find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +7 -exec rm -rf {} +
}

# /dev/kvm can be there and a guest still not run, so the proof is a guest that runs.
find_accelerator() {
    accelerator=tcg
    machine=(-accel "tcg,thread=multi" -cpu "max,la57=off")
    [[ -w /dev/kvm ]] && grep -qwE 'vmx|svm' /proc/cpuinfo || return 0
    if timeout 10 qemu-system-x86_64 -accel kvm -cpu host -m 256 -nodefaults -display none \
        -no-reboot -kernel "$image/vmlinuz" -initrd "$image/initramfs" \
        -append "quiet panic=-1 box.boot=probe" >/dev/null 2>&1; then
        accelerator=kvm
        machine=(-accel kvm -cpu host)
    fi
}

# -k is merged with each boot's own choice: given twice, pytest takes only the last.
split_arguments() {
    keyword='' chosen=false arguments=()
    while (($#)); do
        case $1 in
        -k)
            (($# > 1)) || die "-k needs a value"
            keyword=$2 chosen=true
            shift
            ;;
        -k?*) keyword=${1#-k} chosen=true ;;
        -m* | tests/*) chosen=true arguments+=("$1") ;;
        *) arguments+=("$1") ;;
        esac
        shift
    done
}

# As `make install` would, with the build's own prefix; the guest puts it into its place.
install_build() {
    [[ -f $build/build.ninja ]] || return 0
    DESTDIR=$1 meson install -C "$build" --no-rebuild --quiet
}

make_test_disk() {
    local stage=$run/stage boot choice
    mkdir -p "$stage/build"
    if [[ -d $build ]]; then
        find "$build" -maxdepth 1 -type f -perm /111 -exec cp {} "$stage/build/" \;
        if [[ -d $build/tests ]]; then
            (cd "$build" && find tests -type f -perm /111 -exec cp --parents {} "$stage/build/" \;)
        fi
    fi
    install_build "$stage/install"
    cp -a --no-preserve=ownership "$repo/tests" "$stage/"
    if [[ -f $repo/pytest.ini ]]; then cp "$repo/pytest.ini" "$stage/"; fi
    rm -rf "$stage/tests/integration"
    cp -a --no-preserve=ownership "$tests/." "$stage/tests/integration"
    find "$stage" -name __pycache__ -prune -exec rm -rf {} +
    for boot in "${boots[@]}"; do
        case $boot in
        plain) choice="not test_systemd" ;;
        systemd) choice="test_systemd" ;;
        *) die "no such boot: $boot" ;;
        esac
        printf '%s\0' -k "$choice${keyword:+ and ($keyword)}" "${arguments[@]}" >"$stage/arguments.$boot"
    done
    chmod -R a+rX "$stage"
    mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=0,nodiscard,root_owner=0:0 -L boxd \
        -d "$stage" "$run/boxd.img" "$(($(du -sm "$stage" | cut -f1) * 5 / 4 + 64))M" >/dev/null
}

# Boot the guest, show its console, and leave its result in $status ("" if none).
run_guest() {
    local boot=$1 console=$run/$1.log started=$SECONDS viewer rc=0
    : >"$console"
    : >"$run/result"
    # TMPDIR is where qemu keeps what the guest writes to its disks.
    TMPDIR=$run timeout --kill-after=5 "$limit" qemu-system-x86_64 "${machine[@]}" -smp 2 -m 2048 \
        -nodefaults -display none -no-reboot \
        -kernel "$image/vmlinuz" -initrd "$image/initramfs" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off systemd.show_status=no box.boot=$boot box.accel=$accelerator" \
        -drive "file=$image/root.img,format=raw,if=virtio,snapshot=on,cache=unsafe" \
        -drive "file=$run/boxd.img,format=raw,if=virtio,snapshot=on,cache=unsafe" \
        -nic user,model=virtio-net-pci,restrict=on,ipv6=off \
        -serial "file:$console" -serial "file:$run/result" </dev/null &
    guest=$!
    # In the background too: a trap must be able to end the wait.
    tail -f -n +1 -s 0.2 --pid="$guest" "$console" | sed -u 's/\r//g' &
    viewer=$!
    wait "$guest" || rc=$?
    wait "$viewer" || :
    guest=
    cp "$console" "$cache/" # each run has files of its own; this copy is the last run's
    status=
    if ((rc == 0)); then
        status=$(sed -n 's/^status \([0-9][0-9]*\)$/\1/p' "$run/result")
    fi
    [[ -n $status ]] || echo # the console may have stopped within a line
    if ((rc == 124 || rc == 137)); then
        say "$boot boot: killed after $limit s"
    elif ((rc != 0)); then
        say "$boot boot: qemu ended with status $rc"
    elif [[ -z $status ]]; then
        say "$boot boot: ended without a result"
    fi
    say "$boot boot took $((SECONDS - started)) s; console output is in build/vm/$boot.log"
}

split_arguments "$@"
[[ -x $build/box || -n ${BOX_VM_TESTS-} ]] || die "no $build/box: run make first"
mkdir -p "$cache"
run=$(mktemp -d "$cache/run.XXXXXX")
guest=
trap 'if [[ -n $guest ]]; then kill "$guest" || :; wait "$guest" || :; fi; rm -rf "$run"' EXIT
trap 'exit 130' INT TERM

install_tools
find_image
find_accelerator
make_test_disk

passed=0 failed=0 summaries=()
for boot in "${boots[@]}"; do
    say "$boot boot ($accelerator)"
    run_guest "$boot"
    # The emulator now and then runs code that the kernel is just patching (int3), and the guest is gone.
    if [[ -z $status ]] && grep -q 'Oops: int3' "$run/$boot.log"; then
        say "$boot boot: the emulator broke the guest; once more"
        run_guest "$boot"
    fi
    # One for each time pytest was started.
    summary=$(tr -d '\r' <"$run/$boot.log" | sed -nE 's/^=+ (.* in [0-9.]+s.*) =+$/\1/p' | paste -sd '|')
    case $status in
    0) passed=$((passed + 1)) ;;
    # No test to run: fine where the arguments chose tests of the other boot.
    5) $chosen || failed=$((failed + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
    summaries+=("$boot boot: pytest status ${status:-missing}: ${summary:-no summary}")
done
printf 'test-vm: %s\n' "${summaries[@]}"
((failed == 0 && passed > 0))
