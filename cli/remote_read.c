/* SPDX-License-Identifier: Apache-2.0 */
/* Which meted a verb's options mean. */
#include <string.h>

#include "cli/remote.h"

/* Whether a name is safe in a selector and as a word of kubectl: names of nodes and namespaces are
 * DNS names. */
static bool is_name(const char *text)
{
	size_t n = strlen(text);

	return n && n <= REMOTE_NAME_MOST && text[0] != '-' &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n;
}

int remote_read(struct remote *remote, const struct cli_call *call, struct fault *why)
{
	return remote_name(remote, cli_value(call, "node"), cli_value(call, "context"),
			   cli_value(call, "mete_namespace"), why);
}

int remote_name(struct remote *remote, const char *node, const char *context, const char *space,
		struct fault *why)
{
	*remote = (struct remote){.node = node,
				  .context = context,
				  .space = space ? space : REMOTE_SPACE,
				  .admin = {.fd = -1},
				  .kubectl = {.errors = -1}};
	if (!remote->node && (remote->context || space))
		return fault_set(why, -EINVAL, "%s needs --node NODE",
				 remote->context ? "--context" : "--mete-namespace");
	if (remote->node && !is_name(remote->node))
		return fault_set(
			why, -EINVAL,
			"--node '%.60s': accepted are the names that `kubectl get nodes` shows",
			remote->node);
	if (!is_name(remote->space))
		return fault_set(why, -EINVAL, "--mete-namespace '%.60s' is no namespace's name",
				 remote->space);
	if (remote->context && !*remote->context)
		return fault_set(why, -EINVAL, "--context: the name is empty");
	return 0;
}
