#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gives a linked driver the name that programs look for:
# folders.sh LIBRARY STAMP BUILD VERSION [OTHER]  makes BUILD/VERSION/libcuda.so.1 and libcuda.so,
# and the same in BUILD/OTHER. Hard links: a folder stays usable when it is all that a container sees.
set -eu
library=$1 stamp=$2 build=$3
shift 3
for folder; do
	[ -n "$folder" ] || continue
	mkdir -p "$build/$folder"
	for name in libcuda.so.1 libcuda.so; do
		ln -f "$library" "$build/$folder/$name"
	done
done
: >"$stamp"
