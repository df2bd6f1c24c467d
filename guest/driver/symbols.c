/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/driver/symbols.h"

#include <string.h>

#define TABLE_HASHES
#include "cuda/api.h"
#include "guest/tables.h"

enum {
	HEADER = 4, /* words of DT_GNU_HASH before its filter */
};

_Static_assert((int)TABLE_CUDA * 2 <= (int)TABLE_SLOTS, "the hash has room");

/* The loader has turned these into addresses, except for some objects of the system. */
static const void *at(const struct symbols *s, uintptr_t address)
{
	return (const void *)(address < s->base ? address + s->base : address);
}

static void read_dynamic(struct symbols *s, const ElfW(Dyn) * entry)
{
	for (; entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_SYMTAB:
			s->table = at(s, entry->d_un.d_ptr);
			break;
		case DT_STRTAB:
			s->strings = at(s, entry->d_un.d_ptr);
			break;
		case DT_VERSYM:
			s->versions = at(s, entry->d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			s->hash = at(s, entry->d_un.d_ptr);
			break;
		default:
			break;
		}
	}
}

/* For dl_iterate_phdr(): `begin` is the address to find. */
static int visit(struct dl_phdr_info *object, size_t size, void *context)
{
	struct symbols *s = context;
	const ElfW(Dyn) *dynamic = NULL;
	uintptr_t begin = UINTPTR_MAX, end = 0;

	(void)size;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t address = object->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)address;
		if (part->p_type != PT_LOAD)
			continue;
		begin = address < begin ? address : begin;
		end = address + part->p_memsz > end ? address + part->p_memsz : end;
	}
	if (s->begin < begin || s->begin >= end)
		return 0;
	*s = (struct symbols){.begin = begin, .end = end, .base = object->dlpi_addr};
	if (dynamic)
		read_dynamic(s, dynamic);
	return 1;
}

/* The number of symbols is stored nowhere: the last symbol is the end of the last bucket. */
static void measure(struct symbols *s)
{
	uint32_t buckets = s->hash[0], last = 0;

	s->first = s->last = s->hash[1];
	s->bucket = s->hash + HEADER + s->hash[2] * (sizeof(ElfW(Addr)) / 4);
	s->chain = s->bucket + buckets;
	for (uint32_t i = 0; i < buckets; i++)
		last = s->bucket[i] > last ? s->bucket[i] : last;
	if (last < s->first)
		return;
	/* The last of a bucket has the lowest bit. */
	while (!(s->chain[last - s->first] & 1))
		last++;
	s->last = last + 1;
}

int symbols_open(struct symbols *ret_symbols, const void *inside)
{
	*ret_symbols = (struct symbols){.begin = (uintptr_t)inside};
	if (!dl_iterate_phdr(visit, ret_symbols) || !ret_symbols->hash || !ret_symbols->table ||
	    !ret_symbols->strings || ret_symbols->hash[0] == 0)
		return SYMBOLS_UNUSUAL;
	measure(ret_symbols);
	return 0;
}

static const char *name_of(const struct symbols *symbols, uint32_t index)
{
	return symbols->strings + symbols->table[index].st_name;
}

void *symbols_find(const struct symbols *symbols, const char *name, uint32_t hash)
{
	uint32_t index = symbols->bucket[hash % symbols->hash[0]];
	void *address;

	if (index < symbols->first)
		return NULL;
	for (;; index++) {
		uint32_t other = symbols->chain[index - symbols->first];

		if ((other | 1) == (hash | 1) && strcmp(name_of(symbols, index), name) == 0) {
			address = symbols_address(symbols, index);
			if (address)
				return address;
		}
		if (other & 1)
			return NULL;
	}
}

int symbols_row(const struct symbols *symbols, uint32_t index)
{
	uint32_t hash = symbols->chain[index - symbols->first];
	uint32_t slot = hash >> 1 & (TABLE_SLOTS - 1);

	/* Two names may have one hash. */
	for (; table_slot[slot]; slot = (slot + 1) & (TABLE_SLOTS - 1)) {
		unsigned row = table_slot[slot] - 1u;

		if ((table_hash[row] | 1) == (hash | 1) &&
		    strcmp(name_of(symbols, index), api_symbol(&api_rows[row])) == 0)
			return (int)row;
	}
	return -1;
}
