/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is behind the addresses of a block. The mover reaches a block at addresses of its own. Where
 * the program has created it by cuMemCreate(), its handle is kept, and whatever the program has
 * mapped comes and goes with the block. Functions here are called without a lock, and the block
 * belongs to the caller.
 */
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/movable/movable_object.h"

static CUmemLocation location(void)
{
	return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, movable_.ordinal};
}

static CUresult allow(uint64_t address, uint64_t bytes, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {location(), flags};

	return driver_call(real(cuMemSetAccess)(address, bytes, &access, 1));
}

CUresult movable_access(uint64_t address, uint64_t bytes)
{
	return allow(address, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static CUresult unmap(uint64_t address, uint64_t bytes)
{
	return driver_call(real(cuMemUnmap)(address, bytes));
}

/* ---- the program's mappings ------------------------------------------------------------------ */

static CUresult alias_map(const struct movable_alias *alias, const struct movable_block *block)
{
	uint64_t address, bytes;
	CUresult r;

	if (!movable_alias_part(alias, block, &address, &bytes))
		return CUDA_SUCCESS;
	r = driver_call(real(cuMemMap)(address, bytes, 0, block->handle, 0));
	if (r != CUDA_SUCCESS || alias->access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return r;
	r = allow(address, bytes, alias->access);
	if (r != CUDA_SUCCESS)
		best_effort(unmap(address, bytes));
	return r;
}

static CUresult alias_unmap(const struct movable_alias *alias, const struct movable_block *block)
{
	uint64_t address, bytes;

	return movable_alias_part(alias, block, &address, &bytes) ? unmap(address, bytes)
								  : CUDA_SUCCESS;
}

/* All or none. */
static CUresult aliases(const struct movable_block *block, bool map)
{
	const struct movable_alias *alias = block->area->own.alias;
	CUresult r = CUDA_SUCCESS;
	int done = 0;

	if (!block->area->own.is)
		return r;
	for (; done < MOVABLE_ALIASES && r == CUDA_SUCCESS; done++)
		r = map ? alias_map(&alias[done], block) : alias_unmap(&alias[done], block);
	if (r == CUDA_SUCCESS)
		return r;
	for (done -= 2; done >= 0; done--)
		best_effort(map ? alias_unmap(&alias[done], block)
				: alias_map(&alias[done], block));
	return r;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void release(struct movable_block *block)
{
	if (block->handle)
		best_effort(driver_call(real(cuMemRelease)(block->handle)));
	block->handle = 0;
}

/* The handle is not kept, as a mapping needs none. */
CUresult movable_back(struct movable_block *block)
{
	const struct movable_own *own = &block->area->own;
	CUresult r = driver_call(real(cuMemCreate)(&block->handle, block->bytes,
						   own->is ? &own->about : &movable_.about, 0));

	if (r != CUDA_SUCCESS) {
		block->handle = 0;
		return r;
	}
	r = driver_call(real(cuMemMap)(block->address, block->bytes, 0, block->handle, 0));
	if (r != CUDA_SUCCESS || !own->is)
		release(block);
	return r;
}

CUresult movable_furnish(struct movable_block *block)
{
	CUresult r = movable_back(block);

	if (r != CUDA_SUCCESS)
		return r;
	r = movable_access(block->address, block->bytes);
	if (r == CUDA_SUCCESS)
		r = aliases(block, true);
	if (r != CUDA_SUCCESS) {
		best_effort(unmap(block->address, block->bytes));
		release(block);
	}
	return r;
}

CUresult movable_unback(struct movable_block *block)
{
	CUresult r = aliases(block, false);

	if (r != CUDA_SUCCESS)
		return r;
	r = unmap(block->address, block->bytes);
	if (r == CUDA_SUCCESS)
		release(block);
	else
		best_effort(aliases(block, true));
	return r;
}
