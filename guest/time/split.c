/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/devices.h"
#include "guest/time/split.h"

#include <stdbool.h>

#include "guest/driver/real.h"
#include "guest/time/capture.h"
#include "guest/time/gate.h"
#include "guest/time/presence.h"
#include "guest/time/told.h"

enum {
	LARGE_BYTES = 64 << 20,
	PIECE_BYTES = 32 << 20,
};

#define COPIES(X)                                                                                  \
	X(cuMemcpy, CUdeviceptr, CUdeviceptr)                                                      \
	X(cuMemcpy_ptds, CUdeviceptr, CUdeviceptr)                                                 \
	X(cuMemcpyHtoD_v2, CUdeviceptr, const void *)                                              \
	X(cuMemcpyHtoD_v2_ptds, CUdeviceptr, const void *)                                         \
	X(cuMemcpyDtoH_v2, void *, CUdeviceptr)                                                    \
	X(cuMemcpyDtoH_v2_ptds, void *, CUdeviceptr)

static struct {
#define MEMBER(symbol, to, from) api_fn_##symbol *symbol;
	COPIES(MEMBER)
#undef MEMBER
} driver;

/* Is the copy to be split? Not a copy that the driver makes inside another call: it has not passed
 * the gate. Nor during a capture, as the driver will refuse it. */
static bool is_split(size_t bytes, const void *caller, int *ret_device)
{
	if (likely(bytes <= LARGE_BYTES) || real_is_driver(caller) ||
	    real_is_driver((const void *)(uintptr_t)guest_slot->return_address) || capture_open())
		return false;
	*ret_device = devices_current();
	return *ret_device >= 0 && told_contended(*ret_device, WIRE_CONTENDED);
}

#define BETWEEN(symbol, to, from)                                                                  \
	static CUresult between_##symbol(to target, from source, size_t bytes)                     \
	{                                                                                          \
		CUresult r;                                                                        \
		int device;                                                                        \
		if (!is_split(bytes, __builtin_return_address(0), &device))                        \
			return driver.symbol(target, source, bytes);                               \
		for (size_t done = 0;; done += PIECE_BYTES) {                                      \
			size_t left = bytes - done;                                                \
			bool last = left <= PIECE_BYTES;                                           \
			r = driver.symbol((to)((uintptr_t)target + done),                          \
					  (from)((uintptr_t)source + done),                        \
					  last ? left : (size_t)PIECE_BYTES);                      \
			if (r != CUDA_SUCCESS || last)                                             \
				return r;                                                          \
			r = (CUresult)gate_pause(device);                                          \
			if (r != CUDA_SUCCESS)                                                     \
				return r;                                                          \
		}                                                                                  \
	}
COPIES(BETWEEN)
#undef BETWEEN

void split_begin(void)
{
	static _Atomic uint32_t begun;

	if (atomic_exchange(&begun, 1))
		return;
#define INSERT(symbol, to, from)                                                                   \
	driver.symbol = real_function(symbol);                                                     \
	real_between(API_##symbol, (void *)between_##symbol);
	COPIES(INSERT)
#undef INSERT
}
