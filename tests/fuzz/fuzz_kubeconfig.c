/* SPDX-License-Identifier: Apache-2.0 */
/* Any kubeconfig: it is refused with a sentence fit to be shown, or has a server. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kube/api_kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void read_data(const struct api_given *given)
{
	owned(free) char *bytes = NULL;
	size_t size;

	if (given->text && api_base64_read(given->text, &bytes, &size) == 0)
		must(size <= strlen(given->text) && bytes[size] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct api_kubeconfig config;
	struct fault why = {""};

	if (api_kubeconfig_read((const char *)data, size, &config, &why) < 0) {
		struct fault plain = why;

		text_make_plain(plain.text);
		must(*why.text && strcmp(plain.text, why.text) == 0);
		return 0;
	}
	must(config.server.text && *config.server.text && config.server.line > 0);
	read_data(&config.ca_data);
	read_data(&config.certificate_data);
	read_data(&config.key_data);
	api_kubeconfig_done(&config);
	return 0;
}
