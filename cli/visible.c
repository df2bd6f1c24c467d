/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/visible.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "wire/page.h"
#include "view/ps_rows.h"

enum { VISIBLE_NODE_DEVICES = 64 }; /* most devices of a machine whose indices are known here */

const char *visible_asked(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	return visible && isalnum((unsigned char)*visible) ? visible : "";
}

/* The devices that were asked for, by UUID, in the order of the asking. */
static int name_devices(struct admin *admin, const char *asked, char *ret_names, size_t size,
			struct fault *why)
{
	struct wire_message request = {.code = WIRE_list}, row = {0};
	char rest[WIRE_TEXT_MAX + 1], *at = rest, *name;
	struct ps_uuid uuid[VISIBLE_NODE_DEVICES] = {0};
	int n = 0, r = admin_ask(admin, &request, &row, why);

	for (; r == 0 && row.code != WIRE_end; r = admin_next(admin, &row, why))
		if (row.code == WIRE_device_row && row.device_row.index < VISIBLE_NODE_DEVICES)
			uuid[row.device_row.index] = ps_uuid(&row.device_row);
	if (r < 0)
		return r;
	snprintf(rest, sizeof(rest), "%s", asked);
	while ((name = strsep(&at, ",")) && n < (int)size) {
		char *end;
		size_t index = strtoul(name, &end, 10);
		bool is_index = !*end && index < VISIBLE_NODE_DEVICES && strlen(name) < 4;

		for (size_t i = 0; !is_index && i < VISIBLE_NODE_DEVICES; i++) {
			if (!text_uuid_begins(uuid[i].text, name))
				continue;
			index = i;
			is_index = true;
		}
		n += snprintf(ret_names + n, size - (size_t)n, "%s%s", n ? "," : "",
			      is_index ? uuid[index].text : name);
	}
	return 0;
}

int visible_show(const char *asked, struct admin *admin, const struct wire_tenant_made *made,
		 struct fault *why)
{
	char names[WIRE_DEVICES * sizeof(struct ps_uuid)];
	int r = 0;

	if (!asked && getenv("CUDA_VISIBLE_DEVICES") && !*visible_asked())
		return 0;
	if (!asked)
		asked = visible_asked();
	snprintf(names, sizeof(names), "%s", made->uuid.text);
	if (strchr(asked, ','))
		r = name_devices(admin, asked, names, sizeof(names), why);
	if (r < 0)
		return r;
	return setenv("CUDA_VISIBLE_DEVICES", names, 1) == 0
		       ? 0
		       : fault_set(why, -errno, "out of memory");
}
