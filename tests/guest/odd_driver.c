/* SPDX-License-Identifier: Apache-2.0 */
/* A driver whose symbols are odd: names beside those of cuda/api.def, shared addresses, versions
 * that nobody finds who does not ask for them. */
#define EXPORTED __attribute__((visibility("default")))

#define ODD(symbol)                                                                                \
	EXPORTED const char *symbol(void);                                                         \
	const char *symbol(void)                                                                   \
	{                                                                                          \
		return #symbol;                                                                    \
	}

ODD(cuInit)
ODD(cuDriverGetVersion)
/* Their hashes differ from those of rows in the lowest bit, which DT_GNU_HASH does not keep. */
ODD(cuMemAlloc_v2)
ODD(cuMemAlloc_v3)
ODD(cuMemFree_v3)
/* One address: two versions of one, and a name that is in no table. */
ODD(cuCtxPushCurrent_v2)
__asm__(".globl cuCtxPushCurrent\n.type cuCtxPushCurrent, @function\n"
	".set cuCtxPushCurrent, cuCtxPushCurrent_v2");
ODD(cuInternalLaunch)
__asm__(".globl cuLaunchKernel\n.type cuLaunchKernel, @function\n"
	".set cuLaunchKernel, cuInternalLaunch");
__asm__(".globl cuAaaLaunch\n.type cuAaaLaunch, @function\n.set cuAaaLaunch, cuInternalLaunch");

/* Only of an old version; and of an old one and of the usual one. */
#define OLD(name, symbol)   __asm__(".symver " #name ", " #symbol "@ODD_1")
#define USUAL(name, symbol) __asm__(".symver " #name ", " #symbol "@@ODD_2")
ODD(old_ctx_get_device)
ODD(old_stream_query)
ODD(usual_stream_query)
OLD(old_ctx_get_device, cuCtxGetDevice);
OLD(old_stream_query, cuStreamQuery);
USUAL(usual_stream_query, cuStreamQuery);

/* Needed, not had. */
extern __attribute__((weak)) const char *cuEventQuery(void);
EXPORTED const char *odd_use(void);
const char *odd_use(void)
{
	return cuEventQuery ? cuEventQuery() : "";
}
