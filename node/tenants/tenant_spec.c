/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/tenant_spec.h"

#include "node/daemon.h"

int tenant_spec_share(const struct tenant_spec *spec, struct share *ret_share)
{
	share_init(ret_share);
	for (uint32_t i = 0; share_key(i); i++)
		if (spec->texts[i] && *spec->texts[i] &&
		    share_set(ret_share, share_key(i), spec->texts[i]) != 0)
			return -EINVAL;
	return 0;
}
