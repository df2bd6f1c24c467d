#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gives a linked driver the name that programs look for:
# folders.sh NAME LIBRARY STAMP BUILD VERSION...  makes BUILD/VERSION/NAME.so.1 and NAME.so (NAME is
# libcuda or libnvidia-ml) for each version. Hard links: a folder stays usable when it is all that a container sees.
set -eu
name=$1 library=$2 stamp=$3 build=$4
shift 4
for folder; do
	[ -n "$folder" ] || continue
	mkdir -p "$build/$folder"
	ln -f "$library" "$build/$folder/$name.so.1"
	ln -f "$library" "$build/$folder/$name.so"
done
: >"$stamp"
