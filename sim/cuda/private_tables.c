/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private tables, which a driver gives to NVIDIA's own libraries. There are none, on purpose: they
 * authenticate the driver to its runtime. METE_SIM_PRIVATE_TABLES=on is for tests of libraries that
 * observe such programs: then each table that the runtime asks for exists, and is empty. And there
 * is one of ours, whose function changes the current context without a call of the public
 * interface.
 */
#include "sim/cuda/private_tables.h"

#include <string.h>

#include "cuda/prototypes.h"
#include "sim/machine/settings.h"

static const CUuuid ours = {PRIVATE_TABLES_OURS};

/* Their first word is their size. */
static const uint64_t empty = sizeof(empty);
static const struct private_tables_ours table = {sizeof(table), cuCtxSetCurrent};

CUresult cuGetExportTable(const void **ret_table, const CUuuid *id)
{
	struct settings settings;
	struct fault why;

	if (ret_table && id)
		*ret_table = NULL;
	/* NVIDIA's drivers, too, answer this for a table that they do not have. */
	if (!ret_table || !id || settings_load(&settings, &why) < 0 || !settings.private_tables)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_table = memcmp(id, &ours, sizeof(ours)) == 0 ? (const void *)&table : &empty;
	return CUDA_SUCCESS;
}
