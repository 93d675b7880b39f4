#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build what a guest boots from: mkimage.sh OUTDIR makes OUTDIR/{vmlinuz,initramfs,root.img}.
# Needs root (file ownership inside the image), mmdebstrap and e2fsprogs.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
out=$1
kernel_package=${BOX_VM_KERNEL:-linux-image-6.12-cloud-amd64}

work=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # mktemp's 0700 would keep apt's download user out
mkdir "$work/kernel" "$work/initramfs" "$work/result"
root=$work/root

# The same archives this machine uses, as apt itself has understood them.
# shellcheck disable=SC2016 # the $(...) are apt's placeholders
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' >"$work/sources.list"

# The package named is an empty one that depends on the newest build.
kernel=$(apt-cache depends "$kernel_package" | awk '$1 == "Depends:" { print $2; exit }')
echo "test-vm: kernel package $kernel"
(cd "$work/kernel" && apt-get -qq -o APT::Sandbox::User=root download "$kernel")
dpkg-deb -x "$work/kernel/"*.deb "$work/kernel"
version=$(basename "$work/kernel/lib/modules/"*)

suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
include=$(sed 's/#.*//' "$here/packages" | xargs | tr ' ' ',')
mmdebstrap --quiet --mode=root --variant=minbase --format=directory --include="$include" \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$suite" "$root" "$work/sources.list"

# Unpacked here, once: an emulated CPU takes long over xz.
cp -a "$work/kernel/lib/modules" "$root/usr/lib/"
find "$root/usr/lib/modules" -name '*.ko.xz' -exec xz -d -T0 {} +
chroot "$root" depmod "$version"

# The test user. A fixed id range, so that tests can name it.
chroot "$root" useradd --create-home --uid 1000 --user-group --shell /bin/bash boxtest
echo boxtest:100000:65536 | tee "$root/etc/subuid" >"$root/etc/subgid"

# Take back what the build put in from this machine, and make the guest's own.
echo boxvm >"$root/etc/hostname"
printf '127.0.0.1 localhost boxvm\n::1 localhost\n' >"$root/etc/hosts"
: >"$root/etc/resolv.conf"
: >"$root/etc/apt/sources.list"
mkdir "$root/boxd"

# The systemd boot: a set machine id (else it is a first boot with questions),
# a lingering user, and nothing running that the tests do not need.
rm -f "$root/etc/machine-id"
chroot "$root" systemd-machine-id-setup >/dev/null 2>&1
mkdir -p "$root/var/lib/systemd/linger"
touch "$root/var/lib/systemd/linger/boxtest"
install -m 644 "$here/box-vm-test.service" "$root/etc/systemd/system/"
chroot "$root" systemctl --quiet enable box-vm-test.service
chroot "$root" systemctl --quiet mask getty.target timers.target e2scrub_reap.service \
    systemd-update-utmp.service systemd-journal-flush.service

# The initramfs has a static busybox and virtio_blk with what that depends on.
mkdir -p "$work/initramfs"/{bin,proc,dev,root,modules}
install -m 755 "$here/initramfs-init" "$work/initramfs/init"
cp "$root/bin/busybox" "$work/initramfs/bin/"
chroot "$root" modprobe --set-version "$version" --show-depends virtio_blk |
    awk '$1 == "insmod" { print $2 }' | while read -r module; do
    cp "$root$module" "$work/initramfs/modules/"
    basename "$module" >>"$work/initramfs/modules/order"
done
(cd "$work/initramfs" && find . | bin/busybox cpio -o -H newc 2>/dev/null) >"$work/result/initramfs"

# No journal: every run throws its changes away, so there is nothing to recover.
cp "$work/kernel/boot/vmlinuz-$version" "$work/result/vmlinuz"
mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=0,nodiscard -L root \
    -d "$root" "$work/result/root.img" 4G >/dev/null
mv "$work/result" "$out" # last, so that OUTDIR is either whole or absent
