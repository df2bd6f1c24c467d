#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# /sbin/mete-v2 of the virtual machine: mounts the second disk where the tree was on the machine that made it (mete.root=...,
# of the kernel's command line), runs tests/v2/inside.sh there, and switches the machine off. That one leaves what it
# wants to hand back in a folder, which goes to the third disk as a tar archive.
tree=$(sed -n 's/.*mete\.root=\([^ ]*\).*/\1/p' /proc/cmdline)
mkdir -p "$tree" /out
mount /dev/vdb "$tree" && cd "$tree" && sh tests/v2/inside.sh /out
echo "$?" >/out/status
tar -C /out -cf /dev/vdc .
sync
systemctl poweroff
