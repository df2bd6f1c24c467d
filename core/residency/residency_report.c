/* SPDX-License-Identifier: Apache-2.0 */
#include "core/residency/residency_report.h"

/* With the rest of the last block. */
static uint64_t at_most(uint64_t told, uint64_t chunk_bytes)
{
	return told ? told + chunk_bytes - 1 : 0;
}

static bool took_back(const struct residency_report *before, const struct residency_report *said)
{
	return said->left < before->left || said->copied < before->copied ||
	       said->entered < before->entered || said->returned < before->returned ||
	       said->dropped < before->dropped || said->failed < before->failed;
}

static bool left_more(const struct residency_order *told, const struct residency_report *before,
		      const struct residency_report *said, const struct residency_has *has)
{
	return said->left > at_most(told->leave, has->chunk_bytes) || said->copied > said->left ||
	       said->left - before->left > has->here_bytes;
}

static bool came_more(const struct residency_order *told, const struct residency_report *before,
		      const struct residency_report *said, const struct residency_has *has)
{
	return said->entered > told->enter || said->returned > told->enter - said->entered ||
	       said->entered - before->entered > has->out_bytes + (said->left - before->left);
}

enum residency_doubt residency_doubt(const struct residency_order *told,
				     const struct residency_report *before,
				     const struct residency_report *said,
				     const struct residency_has *has)
{
	if (took_back(before, said))
		return RESIDENCY_TOOK_BACK;
	if (left_more(told, before, said, has))
		return RESIDENCY_LEFT_MORE;
	if (came_more(told, before, said, has))
		return RESIDENCY_CAME_MORE;
	if (said->dropped > at_most(told->drop, has->chunk_bytes))
		return RESIDENCY_GAVE_MORE;
	if (!has->foreign && said->dropped - before->dropped > has->given_bytes)
		return RESIDENCY_GAVE_LESS;
	return RESIDENCY_BELIEVED;
}
