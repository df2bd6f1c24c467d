/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/inject/cdi_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { KUBELET_SINCE = 1029, CONTAINERD_ASKED = 1007, CONTAINERD_SINCE = 2000 };

/* "v1.29.3+k3s1" gives 1029; -1: the text has no version. */
static int version_of(const char *text)
{
	unsigned major, minor;

	if (!text || sscanf(text, "%*[^0-9]%u.%u", &major, &minor) != 2)
		return -1;
	return major < 1000 && minor < 1000 ? (int)(major * 1000 + minor) : -1;
}

/* Returns 1 for "name = true" in a line that is not a comment, 0 for false, -1 if there is neither.
 * The last such line counts, as in containerd. */
static int read_switch(const char *text, const char *name)
{
	int said = -1;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *at = line + strspn(line, "\n \t\r");

		line = at;
		if (strncmp(at, name, strlen(name)) != 0)
			continue;
		at += strlen(name);
		at += strspn(at, " \t");
		if (*at++ != '=')
			continue;
		at += strspn(at, " \t");
		if (strncmp(at, "true", 4) == 0)
			said = 1;
		else if (strncmp(at, "false", 5) == 0)
			said = 0;
	}
	return said;
}

static bool is_of(const char *runtime, const char *name)
{
	return runtime && strncmp(runtime, name, strlen(name)) == 0;
}

static bool choose_containerd(const struct cdi_facts *facts, struct fault *ret_reason)
{
	int version = version_of(facts->runtime);
	int said = facts->config ? read_switch(facts->config, "enable_cdi") : -1;

	if (said >= 0 && (version < 0 || version >= CONTAINERD_ASKED)) {
		fault_set(ret_reason, 0, "containerd's configuration has enable_cdi = %s",
			  said ? "true" : "false");
		return said;
	}
	if (version >= 0 && version < CONTAINERD_SINCE) {
		fault_set(ret_reason, 0, "containerd %d.%d reads no CDI files%s", version / 1000,
			  version % 1000,
			  version >= CONTAINERD_ASKED ? " without enable_cdi = true" : "");
		return false;
	}
	if (version >= 0)
		fault_set(ret_reason, 0, "containerd %d.%d reads CDI files", version / 1000,
			  version % 1000);
	else
		fault_set(ret_reason, 0, "%s",
			  facts->folder ? "the folder of CDI files exists"
					: "nothing says that the container runtime lacks CDI");
	return true;
}

bool cdi_choice(const struct cdi_facts *facts, struct fault *ret_reason)
{
	int kubelet = version_of(facts->kubelet);

	if (kubelet >= 0 && kubelet < KUBELET_SINCE) {
		fault_set(ret_reason, 0, "the kubelet (%d.%d) passes no CDI devices on before 1.29",
			  kubelet / 1000, kubelet % 1000);
		return false;
	}
	if (!facts->runtime || is_of(facts->runtime, "containerd://"))
		return choose_containerd(facts, ret_reason);
	if (is_of(facts->runtime, "cri-o://")) {
		fault_set(ret_reason, 0, "CRI-O reads CDI files");
		return true;
	}
	fault_set(ret_reason, 0, "the container runtime is not known to support CDI: %.60s",
		  facts->runtime);
	text_make_plain(ret_reason->text);
	return false;
}
