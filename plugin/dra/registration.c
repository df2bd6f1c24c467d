/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/registration.h"

#include <string.h>

int registration_name(const struct config *config, char ret_driver[80], struct fault *why)
{
	if (strlen(config->domain) > CONFIG_NAME_MAX - strlen("gpu."))
		return config_blame(
			config, "domain", why,
			"'%s' is too long for a DRA driver's name, gpu.%s; accepted: at "
			"most %zu characters",
			config->domain, config->domain, CONFIG_NAME_MAX - strlen("gpu."));
	snprintf(ret_driver, 80, "gpu.%s", config->domain);
	return 0;
}

void registration_free(struct registration *reg)
{
	if (!reg)
		return;
	grpc_server_close(reg->registry, NULL);
	grpc_server_close(reg->server, NULL);
	free(reg);
}
