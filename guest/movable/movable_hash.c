/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/movable_hash.h"

#include <string.h>

#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/movable/movable_hash_text.h"
#include "guest/process/changes.h"

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
		best_effort(driver_call(real(cuMemFreeHost)(hash.found)));
	for (int i = 0; i < SLOTS; i++) {
		if (hash.begun[i])
			best_effort(real(cuEventDestroy_v2)(hash.begun[i]));
		if (hash.hashed[i])
			best_effort(real(cuEventDestroy_v2)(hash.hashed[i]));
	}
	if (hash.module)
		best_effort(driver_call(real(cuModuleUnload)(hash.module)));
	memset(&hash, 0, sizeof(hash));
}

void movable_hash_open(void)
{
	size_t bytes;
	CUresult r;

	changes_other(-1); /* the module takes memory */
	r = driver_call(real(cuModuleLoadData)(&hash.module, movable_hash_text));
	if (r == CUDA_SUCCESS)
		r = real(cuModuleGetFunction)(&hash.kernel, hash.module, "mete_hash_block");
	if (r == CUDA_SUCCESS)
		r = real(cuModuleGetGlobal_v2)(&hash.results, &bytes, hash.module, "mete_hash");
	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemHostAlloc)((void **)&hash.found, SLOTS * SLOT_BYTES,
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

	r = driver_call(real(cuMemsetD8Async)(out, 0, SLOT_BYTES, stream));
	if (r == CUDA_SUCCESS)
		r = real(cuEventRecord)(hash.begun[slot], stream);
	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuLaunchKernel)(hash.kernel, GROUPS, 1, 1, THREADS, 1, 1, 0,
						     stream, arguments, NULL));
	if (r == CUDA_SUCCESS)
		r = real(cuEventRecord)(hash.hashed[slot], stream);
	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemcpyDtoHAsync_v2)(&hash.found[(size_t)slot * 2], out,
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
