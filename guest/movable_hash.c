/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable_hash.h"

#include <string.h>

#include "guest/memory.h"
#include "guest/real.h"

enum {
	SLOTS = 2,
	THREADS = 256,
	GROUPS = 128,
	SLOT_BYTES = 16,
	PIECE_BYTES = 64, /* of one thread, at a time */
	TRIAL_BYTES = 2 << 20,
	WORTH = 4, /* hashing is worthwhile if it is this many times as fast as copying */
	TRY_AGAIN = 256,
};

/*
 * The hash of 16 bytes (w0, w1) at a place is the 128 bits of (w0 + k0) * (w1 + k1), with keys
 * that no other place has. Low and high halves are summed, so the order does not matter. A changed
 * word changes the sum, because its partner plus key is zero only once in 2^64.
 */
#define PAIR(at, key0, key1)                                                                       \
	"ld.global.v2.u64 {%d14, %d15}, [%d0+" at "];\n"                                           \
	"add.u64 %d14, %d14, %d12;\n"                                                              \
	"add.u64 %d15, %d15, %d13;\n"                                                              \
	"add.u64 %d14, %d14, " key0 ";\n"                                                          \
	"add.u64 %d15, %d15, " key1 ";\n"                                                          \
	"mul.lo.u64 %d16, %d14, %d15;\n"                                                           \
	"mul.hi.u64 %d17, %d14, %d15;\n"                                                           \
	"add.u64 %d5, %d5, %d16;\n"                                                                \
	"add.u64 %d6, %d6, %d17;\n"

static const char text[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .global .align 16 .u64 mete_hash[4];\n"
	".visible .entry mete_hash_block(.param .u64 at, .param .u64 pieces, .param .u64 out)\n"
	"{\n"
	".reg .pred %p;\n"
	".reg .b32 %r<4>;\n"
	".reg .b64 %d<20>;\n"
	"ld.param.u64 %d0, [at];\n"
	"ld.param.u64 %d1, [pieces];\n"
	"ld.param.u64 %d2, [out];\n"
	"mov.u32 %r0, %ctaid.x;\n"
	"mov.u32 %r1, %ntid.x;\n"
	"mov.u32 %r2, %tid.x;\n"
	"mov.u32 %r3, %nctaid.x;\n"
	"mad.lo.u32 %r2, %r0, %r1, %r2;\n"
	"mul.lo.u32 %r3, %r3, %r1;\n"
	"cvt.u64.u32 %d3, %r2;\n"
	"cvt.u64.u32 %d4, %r3;\n"
	"mov.u64 %d5, 0;\n"
	"mov.u64 %d6, 0;\n"
	"mov.u64 %d7, 0x9e3779b97f4a7c15;\n"
	"mov.u64 %d8, 0xd1b54a32d192ed03;\n"
	"shl.b64 %d9, %d3, 6;\n"
	"add.u64 %d0, %d0, %d9;\n"
	"shl.b64 %d9, %d4, 6;\n"
	"mul.lo.u64 %d12, %d3, %d7;\n"
	"mul.lo.u64 %d13, %d3, %d8;\n"
	"mul.lo.u64 %d10, %d4, %d7;\n"
	"mul.lo.u64 %d11, %d4, %d8;\n"
	"again:\n"
	"setp.ge.u64 %p, %d3, %d1;\n"
	"@%p bra done;\n" PAIR("0", "0x243f6a8885a308d3", "0x13198a2e03707344")
		PAIR("16", "0xa4093822299f31d0",
		     "0x082efa98ec4e6c89") PAIR("32", "0x452821e638d01377", "0xbe5466cf34e90c6c")
			PAIR("48", "0xc0ac29b7c97c50dd",
			     "0x3f84d5b5b5470917") "add.u64 %d0, %d0, %d9;\n"
						   "add.u64 %d3, %d3, %d4;\n"
						   "add.u64 %d12, %d12, %d10;\n"
						   "add.u64 %d13, %d13, %d11;\n"
						   "bra again;\n"
						   "done:\n"
						   "atom.global.add.u64 %d16, [%d2], %d5;\n"
						   "atom.global.add.u64 %d17, [%d2+8], %d6;\n"
						   "ret;\n"
						   "}\n";

static struct {
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr results;
	uint64_t *found; /* pinned */
	CUevent begun[SLOTS], hashed[SLOTS];
	uint64_t bytes[SLOTS];
	bool worth, known;
	unsigned since; /* it was last tried */
} hash;

void movable_hash_close(void)
{
	if (hash.found)
		best_effort(memory_driver(real(cuMemFreeHost)(hash.found)));
	for (int i = 0; i < SLOTS; i++) {
		if (hash.begun[i])
			best_effort(real(cuEventDestroy_v2)(hash.begun[i]));
		if (hash.hashed[i])
			best_effort(real(cuEventDestroy_v2)(hash.hashed[i]));
	}
	if (hash.module)
		best_effort(memory_driver(real(cuModuleUnload)(hash.module)));
	memset(&hash, 0, sizeof(hash));
}

void movable_hash_open(void)
{
	size_t bytes;
	CUresult r;

	moves_other(-1); /* the module takes memory */
	r = memory_driver(real(cuModuleLoadData)(&hash.module, text));
	if (r == CUDA_SUCCESS)
		r = real(cuModuleGetFunction)(&hash.kernel, hash.module, "mete_hash_block");
	if (r == CUDA_SUCCESS)
		r = real(cuModuleGetGlobal_v2)(&hash.results, &bytes, hash.module, "mete_hash");
	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuMemHostAlloc)((void **)&hash.found, SLOTS * SLOT_BYTES,
						       CU_MEMHOSTALLOC_PORTABLE));
	for (int i = 0; i < SLOTS && r == CUDA_SUCCESS; i++) {
		r = real(cuEventCreate)(&hash.begun[i], CU_EVENT_DEFAULT);
		if (r == CUDA_SUCCESS)
			r = real(cuEventCreate)(&hash.hashed[i], CU_EVENT_DEFAULT);
	}
	if (r != CUDA_SUCCESS)
		movable_hash_close();
}

static CUresult launch(unsigned slot, uint64_t address, CUstream stream)
{
	CUdeviceptr out = hash.results + (CUdeviceptr)slot * SLOT_BYTES;
	uint64_t pieces = hash.bytes[slot] / PIECE_BYTES;
	void *arguments[] = {&address, &pieces, &out};
	CUresult r;

	r = memory_driver(real(cuMemsetD8Async)(out, 0, SLOT_BYTES, stream));
	if (r == CUDA_SUCCESS)
		r = real(cuEventRecord)(hash.begun[slot], stream);
	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuLaunchKernel)(hash.kernel, GROUPS, 1, 1, THREADS, 1, 1, 0,
						       stream, arguments, NULL));
	if (r == CUDA_SUCCESS)
		r = real(cuEventRecord)(hash.hashed[slot], stream);
	if (r == CUDA_SUCCESS)
		r = memory_driver(real(cuMemcpyDtoHAsync_v2)(&hash.found[(size_t)slot * 2], out,
							     SLOT_BYTES, stream));
	return r;
}

bool movable_hash_begin(unsigned slot, uint64_t address, uint64_t bytes, CUstream stream)
{
	hash.bytes[slot] = 0;
	if (!hash.found || (hash.known && !hash.worth && ++hash.since < TRY_AGAIN))
		return false;
	/* A small part shows whether it is worthwhile. */
	hash.bytes[slot] = hash.known && hash.worth ? bytes : TRIAL_BYTES;
	hash.since = 0;
	if (launch(slot, address, stream) != CUDA_SUCCESS) {
		hash.bytes[slot] = 0;
		return false;
	}
	return hash.bytes[slot] == bytes;
}

void movable_hash_copied(unsigned slot, uint64_t bytes, CUevent copied)
{
	float hashing = 0, copying = 0;
	uint64_t of = hash.bytes[slot];

	hash.bytes[slot] = 0;
	if (of == 0 ||
	    real(cuEventElapsedTime)(&hashing, hash.begun[slot], hash.hashed[slot]) !=
		    CUDA_SUCCESS ||
	    real(cuEventElapsedTime)(&copying, hash.hashed[slot], copied) != CUDA_SUCCESS)
		return;
	hash.worth = hashing / (float)of * WORTH <= copying / (float)bytes;
	hash.known = true;
}

bool movable_hash_late(unsigned slot, uint64_t address, uint64_t bytes, CUstream stream)
{
	bool begun;

	if (!hash.known || !hash.worth)
		return false;
	hash.bytes[slot] = bytes;
	begun = launch(slot, address, stream) == CUDA_SUCCESS;
	hash.bytes[slot] = 0; /* it is not measured: no copy follows */
	return begun;
}

void movable_hash_read(unsigned slot, uint64_t ret_hash[2])
{
	memcpy(ret_hash, &hash.found[(size_t)slot * 2], SLOT_BYTES);
}
