/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/standby.h"

#include <string.h>

#include "base/words.h"
#include "plugin/dra/inside.h"
#include "plugin/dra/register.h"

/* What it says of them: whose they are, and whether the kubelet knows that. */
static void describe(const struct registration *reg, char of[HANDOVER_OF])
{
	snprintf(of, HANDOVER_OF, "%s %s", reg->driver, reg->registered ? "known" : "unknown");
}

/* It may have another name than ours: a former one, which stays while it is needed (name.c).
 * Whether it still is, is seen when the books are open. */
static int understand(struct registration *reg, const char *of, struct fault *why)
{
	char same[HANDOVER_OF];

	snprintf(reg->driver, sizeof(reg->driver), "%.*s", (int)strcspn(of, " "), of);
	for (int known = 0; known < 2; known++) {
		reg->registered = known;
		describe(reg, same);
		if (strcmp(same, of) == 0 && name_is_driver(reg->driver))
			return 0;
	}
	return fault_set(why, -EINVAL,
			 "the sockets of who serves are those of '%s', which is no "
			 "driver of ours",
			 words_show(of).text);
}

int standby_give(struct plugin *p, struct handover_sockets *ret_sockets)
{
	const struct registration *reg = p->dra ? p->dra->registration : NULL;

	if (!reg || !registration_is_reachable(reg))
		return 1;
	describe(reg, ret_sockets->of);
	ret_sockets->fd[0] = grpc_server_socket(reg->server);
	ret_sockets->fd[1] = grpc_server_socket(reg->registry);
	return 0;
}

int standby_finish(struct plugin *p, bool given)
{
	return p->dra && register_leave(p->dra, given);
}

/* Lent. */
static int inherit(const struct plugin *p, const struct handover_sockets *sockets,
		   struct registration *reg, struct fault *why)
{
	struct loop *loop = p->host->loop;
	char folder[PLUGIN_PATH];
	int r;

	/* The kubelet whose sockets they are is the one that our configuration says. */
	snprintf(folder, sizeof(folder), "%s/plugins/%s/", p->config->kubelet_folder, reg->driver);
	r = grpc_server_inherit(loop, sockets->fd[0], folder, serve_methods, serve_method_count,
				NULL, &reg->server, why);
	snprintf(folder, sizeof(folder), "%s/plugins_registry/%s-", p->config->kubelet_folder,
		 reg->driver);
	if (r == 0)
		r = grpc_server_inherit(loop, sockets->fd[1], folder, registration_methods,
					REGISTRATION_METHODS, reg, &reg->registry, why);
	if (r == 0)
		grpc_server_go_on(reg->registry, reg);
	return r;
}

int standby_inherit(struct plugin *p, const struct handover_sockets *sockets, struct fault *why)
{
	owned(registration_free) struct registration *reg = NULL;
	int r;

	if (!p->host->stands_by || p->awaited || !p->config->has_mete || !p->config->dra)
		return fault_set(why, -ENOTSUP, "the configuration does not say 'dra: on'");
	reg = registration_new("", NULL);
	if (!reg)
		return fault_set(why, -ENOMEM, "out of memory");
	r = understand(reg, sockets->of, why);
	if (r == 0)
		r = inherit(p, sockets, reg, why);
	if (r < 0)
		return r;
	log_info("standby.inherited", "driver=%s socket=%s", reg->driver,
		 grpc_server_path(reg->server));
	p->awaited = take(reg);
	return 0;
}

void standby_close(struct plugin *p)
{
	struct registration *reg = take(p->awaited);

	if (!reg)
		return;
	if (p->host->carried)
		*p->host->carried = reg;
	else
		registration_free(reg);
}
