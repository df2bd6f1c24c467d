/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/guest_identity.h"

#include <poll.h>

#include "node/daemon.h"

static struct list *same_pid(struct daemon *d, pid_t pid)
{
	return &d->tenants.guests[(uint32_t)pid % DAEMON_PIDS];
}

void guest_index(struct guest *g)
{
	list_append(same_pid(g->tenant->daemon, g->pid), &g->same_pid);
}

static bool is(const struct guest *g, const struct process_identity *process)
{
	return g->process.pid == process->pid && g->process.started == process->started;
}

struct guest *guest_find(const struct tenant *t, const struct process_identity *process)
{
	list_for_each(link, same_pid(t->daemon, process->pid))
	{
		struct guest *g = list_entry(link, struct guest, same_pid);

		if (g->tenant == t && is(g, process))
			return g;
	}
	return NULL;
}

bool guest_is_known(const struct tenant *t, const struct process_identity *process)
{
	return guest_find(t, process) != NULL;
}

bool guest_was_replaced(const struct guest *g)
{
	return process_was_replaced(g->tenant->daemon->looks, &g->process, g->memory_fd);
}

bool guest_is_another(const struct caller *c, const struct wire_hello *hello)
{
	const struct guest *g = guest_find(c->tenant, &c->process);

	return g && g->copy && hello->copy && g->copy != hello->copy && !guest_was_replaced(g);
}

bool guest_is_unclear(const struct caller *c, const struct wire_hello *hello)
{
	const struct guest *g = guest_find(c->tenant, &c->process);

	return g && g->process.image != c->process.image && guest_is_another(c, hello);
}

/* The driver says what a process holds, not for which tenant. */
bool guest_is_elsewhere(const struct tenant *t, const struct process_identity *process)
{
	list_for_each(link, same_pid(t->daemon, process->pid))
	{
		const struct guest *g = list_entry(link, struct guest, same_pid);

		if (g->tenant != t && is(g, process) && !guest_was_replaced(g))
			return true;
	}
	return false;
}

int guest_open_memory(const struct daemon *d, pid_t pid)
{
	int fd = process_open_memory(d->looks, pid);

	if (fd <= d->door.guest_fds)
		return fd;
	close(fd);
	return -EMFILE;
}

bool guest_still_calls(const struct caller *c)
{
	struct pollfd end = {.fd = c->peer.watch.fd};

	return process_runs_it(c->tenant->daemon->looks, &c->process) && poll(&end, 1, 0) == 0;
}
