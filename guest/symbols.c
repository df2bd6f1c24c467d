/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/symbols.h"

#include <stddef.h>
#include <string.h>

enum {
	HEADER = 4,	 /* words of DT_GNU_HASH before its filter */
	HIDDEN = 0x8000, /* a version that only those find who ask for it */
};

/* The loader has made addresses of them, but for some objects that are the system's. */
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

/* Of dl_iterate_phdr(): `begin` is the address that is looked for. */
static int look_at(struct dl_phdr_info *object, size_t size, void *context)
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

int symbols_open(struct symbols *ret_symbols, const void *inside)
{
	*ret_symbols = (struct symbols){.begin = (uintptr_t)inside};
	if (!dl_iterate_phdr(look_at, ret_symbols) || !ret_symbols->hash || !ret_symbols->table ||
	    !ret_symbols->strings || ret_symbols->hash[0] == 0)
		return SYMBOLS_UNUSUAL;
	return 0;
}

/* A name in a bucket of the same hash: the definition that dlsym() would choose. */
static void *address_of(const struct symbols *s, uint32_t index, const char *name)
{
	const ElfW(Sym) *symbol = &s->table[index];
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
	    (type != STT_FUNC && type != STT_NOTYPE) ||
	    (s->versions && (s->versions[index] & HIDDEN)) ||
	    strcmp(s->strings + symbol->st_name, name) != 0)
		return NULL;
	return (void *)(s->base + symbol->st_value);
}

void *symbols_find(const struct symbols *symbols, const char *name, uint32_t hash)
{
	uint32_t buckets = symbols->hash[0], first = symbols->hash[1], filters = symbols->hash[2];
	const uint32_t *bucket = symbols->hash + HEADER + filters * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;
	uint32_t index = bucket[hash % buckets];
	void *address;

	if (index < first)
		return NULL;
	/* The last of a bucket has the lowest bit. */
	for (;; index++) {
		uint32_t other = chain[index - first];

		if ((other | 1) == (hash | 1)) {
			address = address_of(symbols, index, name);
			if (address)
				return address;
		}
		if (other & 1)
			return NULL;
	}
}
