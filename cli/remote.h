/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meted of a cluster's node, asked through the API server: `kubectl exec` runs `mete --relay`
 * in meted's pod there, and its standard input and output are the connection. It stays open between
 * requests.
 */
#pragma once

#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/kubectl.h"

enum { REMOTE_NAME_MOST = 253 /* of Kubernetes' names */ };

#define REMOTE_SPACE "mete-system" /* where mete's pods are, usually */

struct remote {
	/* Borrowed, as typed: the node, kubectl's context (NULL: its current one), the namespace of
	 * mete's pods. */
	const char *node, *context, *space;
	bool hurried; /* somebody waits with a finger on the key: what takes longer than that fails
		       */
	struct admin admin; /* fd -1: not connected */
	struct kubectl kubectl;
};

/* From the options --node, --context and --mete-namespace of the verb. Without --node it is this
 * machine: remote->node is NULL. -EINVAL with a sentence. */
must_check int remote_read(struct remote *remote, const struct cli_call *call, struct fault *why);
/* From what was typed for the three, each NULL where it was not. */
must_check int remote_name(struct remote *remote, const char *node, const char *context,
			   const char *space, struct fault *why);

/* Connects, unless it is connected already. remote_check() closes it after a failure. */
must_check int remote_connect(struct remote *remote, struct fault *why);

/* Connects to the meted that the options mean, for a verb on the tenant `who`: that node's, or this
 * machine's. */
must_check int remote_reach(struct remote *remote, const char *who, struct fault *why);

/* After a request: if `r` is a failure of the connection, closes it, and the sentence names the
 * node and has kubectl's message. Returns r. Does nothing for this machine's meted. */
must_check int remote_check(struct remote *remote, int r, struct fault *why);
void remote_close(struct remote *remote);

/* For the shell's completion, one name on each line: the nodes that have a meted, by `context` and
 * `space` of `remote`; and the contexts that kubectl knows. Fails as kubectl_run() does. */
must_check int remote_list_nodes(const struct remote *remote, char *ret_said, size_t size,
				 struct fault *why);
must_check int remote_list_contexts(char *ret_said, size_t size, struct fault *why);

/* Whether that tenant is a container of a pod, by its name NAMESPACE/POD/CONTAINER. If so, kubectl
 * cannot take any part of the name for an option. */
bool remote_is_pods(const struct wire_tenant_row *tenant);
/* Changes its share as kubectl mete does: by annotations of its pod for that container, with the
 * person's own right to patch the pod. Each field is typed as KEY=VALUE. */
must_check int remote_annotate(const struct remote *remote, const char *tenant, char *const *typed,
			       int count, struct fault *why);

static inline void remote_close_owned(struct remote *remote)
{
	remote_close(remote);
}
