/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/driver/addresses.h"

#include <stdbool.h>
#include <string.h>

#define TABLE_KINDS
#include "cuda/api.h"
#include "guest/say.h"
#include "guest/tables.h"

enum {
	HASH_SLOTS = 2048, /* power of two */
	NO_ROW = -1,
};

_Static_assert((int)ADDRESSES_MAX * 4 <= (int)HASH_SLOTS * 3, "the hash has room");
_Static_assert((int)TABLE_CUDA <= (int)ADDRESSES_MAX, "the hash has room for every row");

struct entry {
	const void *address;
	int32_t owner; /* a row; NO_ROW; or below it, unnamed(): a symbol that was not asked for yet
			*/
};

static struct {
	struct entry hash[HASH_SLOTS];
	struct symbols symbols;
	bool used;
} addresses;

/* From symbol to owner, and back. */
static inline int32_t unnamed(uint32_t symbol)
{
	return NO_ROW - 1 - (int32_t)symbol;
}

/* These bits differ most for functions that lie one behind the other: with NVIDIA's driver and with
 * ours, one look-up in ten needs a second slot. */
static unsigned hash_of(const void *address)
{
	return (unsigned)(((uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15)) >> 40) &
	       (HASH_SLOTS - 1);
}

static int row_of(int32_t owner)
{
	return owner >= NO_ROW
		       ? owner
		       : symbols_row(&addresses.symbols, (uint32_t)unnamed((uint32_t)owner));
}

/* A function of its own, so that later look-ups save no registers. */
static __attribute__((noinline, cold)) int name(struct entry *entry)
{
	int row = row_of(__atomic_load_n(&entry->owner, __ATOMIC_RELAXED));

	__atomic_store_n(&entry->owner, row, __ATOMIC_RELAXED);
	return row;
}

int addresses_row(const void *address)
{
	struct entry *entry;
	unsigned slot = hash_of(address);
	int owner;

	for (;; slot = (slot + 1) & (HASH_SLOTS - 1)) {
		entry = &addresses.hash[slot];
		if (likely(entry->address == address))
			break;
		if (!entry->address)
			return NO_ROW;
	}
	owner = __atomic_load_n(&entry->owner, __ATOMIC_RELAXED);
	return likely(owner >= NO_ROW) ? owner : name(entry);
}

/* Both versions take the same and do the same, and so do our hooks of them. */
static bool two_versions_of_one(unsigned a, unsigned b)
{
	unsigned low = a < b ? a : b, high = a < b ? b : a;

	return (low == API_cuCtxPushCurrent && high == API_cuCtxPushCurrent_v2) ||
	       (low == API_cuCtxPopCurrent && high == API_cuCtxPopCurrent_v2);
}

/* May the two share an address? They may if one hook serves both. */
static bool interchangeable(unsigned a, unsigned b)
{
	return table_kind[a] == table_kind[b] &&
	       (table_kind[a] != TRAMPOLINE_HOOK || two_versions_of_one(a, b));
}

/* Two symbols have one address. It belongs to the lower row; names that are in no table do not
 * count. */
static int share(struct entry *entry, int32_t owner)
{
	int a = row_of(entry->owner), b = row_of(owner), low, high;

	low = a < b ? a : b;
	high = a < b ? b : a;
	entry->owner = low < 0 ? high : low;
	if (low < 0 || low == high || interchangeable((unsigned)low, (unsigned)high))
		return 0;
	say("the driver has the same address for %s and %s, which must differ: it is not used",
	    api_symbol(&api_rows[low]), api_symbol(&api_rows[high]));
	return -1;
}

static inline int add(const void *address, int32_t owner)
{
	unsigned slot = hash_of(address);

	for (; addresses.hash[slot].address; slot = (slot + 1) & (HASH_SLOTS - 1))
		if (addresses.hash[slot].address == address)
			return share(&addresses.hash[slot], owner);
	addresses.hash[slot].owner = owner;
	addresses.hash[slot].address = address;
	return 0;
}

void addresses_clear(void)
{
	/* Pages of zeros that nobody has written cost nothing. */
	if (addresses.used)
		memset(&addresses, 0, sizeof(addresses));
	addresses.used = true;
}

int addresses_take(const struct symbols *symbols)
{
	/* A copy to which nothing points stays in registers. */
	struct symbols s = *symbols;

	addresses.symbols = s;
	for (uint32_t i = s.first; i < s.last; i++) {
		const void *address = symbols_address(&s, i);

		if (address && add(address, unnamed(i)) < 0)
			return -1;
	}
	return 0;
}

int addresses_add(const void *address, unsigned row)
{
	return add(address, (int32_t)row);
}
