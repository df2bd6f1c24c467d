#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Third-party programs, unmodified, on the simulated driver: client.sh WHICH SOURCES LIBRARIES
# WHICH: openacc, openmp (GCC's, where gcc-12-offload-nvptx is installed), ffmpeg (its CUDA filters
# against its own CPU filters). Exit 77: the program is not there (tools/needs).
set -eu
which=$1 sources=$2 libraries=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/mete-client-XXXXXX")
trap 'rm -rf "$work"' EXIT
export METE_SIM_DIR="$work/node" METE_SIM_CONTEXT_COST=0 METE_SIM_PATTERN=on
mkdir "$work/node"

require() { # NEED
	why=$("$(dirname "$0")/../../../tools/needs" "$1") || {
		status=$?
		[ $status != 77 ] || echo "skipped: $why"
		exit $status
	}
}

offload() { # FLAG
	require offload
	gcc-12 -O1 "$1" -foffload=nvptx-none -foffload-options=-lm "$sources/$which.c" -o "$work/program" -lm \
		2>"$work/log" || { cat "$work/log" >&2; exit 1; }
	LD_LIBRARY_PATH=$libraries ACC_DEVICE_TYPE=nvidia OMP_TARGET_OFFLOAD=mandatory "$work/program"
}

video() { # OUTPUT ARGUMENTS: raw frames
	out=$1
	shift
	ffmpeg -v error -nostdin -y "$@" -f rawvideo "$out"
}

same() { # WHAT
	cmp "$work/cpu.yuv" "$work/gpu.yuv" || { echo "$1: the frames differ" >&2; exit 1; }
	[ -s "$work/gpu.yuv" ] || { echo "$1: no frames" >&2; exit 1; }
	echo "$1: the frames are the same"
}

case $which in
openacc) offload -fopenacc ;;
openmp) offload -fopenmp ;;
ffmpeg)
	require ffmpeg
	below="-f lavfi -i testsrc=size=320x240:rate=10:duration=2"
	above="-f lavfi -i color=red:size=64x64:rate=10:duration=2"
	device="-init_hw_device cuda=cu:0 -filter_hw_device cu"
	# shellcheck disable=SC2086
	{
		video "$work/cpu.yuv" $below -vf format=yuv420p
		LD_LIBRARY_PATH=$libraries video "$work/gpu.yuv" $device $below \
			-vf format=yuv420p,hwupload_cuda,hwdownload,format=yuv420p
		same "up and down"
		video "$work/cpu.yuv" $below $above -filter_complex \
			"[0]format=yuv420p[a];[1]format=yuv420p[b];[a][b]overlay=x=10:y=20:format=yuv420"
		LD_LIBRARY_PATH=$libraries video "$work/gpu.yuv" $device $below $above -filter_complex \
			"[0]format=yuv420p,hwupload_cuda[a];[1]format=yuv420p,hwupload_cuda[b];[a][b]overlay_cuda=x=10:y=20,hwdownload,format=yuv420p"
		same "overlay"
		# A filter whose code reads textures fails when it is loaded, and names what it lacks.
		if LD_LIBRARY_PATH=$libraries video "$work/gpu.yuv" $device $below \
			-vf format=yuv420p,hwupload_cuda,scale_cuda=160:120,hwdownload,format=yuv420p 2>"$work/log"; then
			echo "scale_cuda: worked without textures" >&2
			exit 1
		fi
	}
	grep -q "tex\.2d" "$work/log" || { cat "$work/log" >&2; exit 1; }
	echo "scale: refused for its textures, by name"
	;;
*) echo "client.sh: unknown client '$which': openacc, openmp or ffmpeg" >&2; exit 2 ;;
esac
