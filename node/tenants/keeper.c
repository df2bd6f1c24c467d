/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/keeper.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "node/daemon.h"
#include "node/process.h"
#include "node/upcalls.h"

enum { KEEPERS_MOST = 64 }; /* of a tenant */

struct keeper {
	struct list link; /* of the tenant; not linked: it has ended */
	struct tenant *tenant;
	struct loop_watch death;
	pid_t pid;
	int pidfd;
};

static void on_closed(struct loop_watch *watch)
{
	struct keeper *k = container_of(watch, struct keeper, death);

	close(k->pidfd);
	free(k);
}

static void drop(struct keeper *k)
{
	list_remove(&k->link);
	loop_unwatch(&k->death, on_closed);
}

static void on_death(struct loop_watch *watch, int events)
{
	struct keeper *k = container_of(watch, struct keeper, death);
	struct tenant *t = k->tenant;

	(void)events;
	if (!list_linked(&k->link))
		return;
	drop(k);
	tenant_maybe_end(t);
}

int keeper_add(struct tenant *t, uint32_t pid, struct fault *why)
{
	struct looks *looks = t->daemon->looks;
	unsigned count = 0;
	struct keeper *k;

	list_for_each(link, &t->processes)
	{
		if (list_entry(link, struct keeper, link)->pid == (pid_t)pid)
			return 0;
		count++;
	}
	if (count == KEEPERS_MOST)
		return fault_set(why, -ENOSPC, "at most %d processes may keep a tenant",
				 KEEPERS_MOST);
	/* Its end would never come, and nobody could end the tenant. */
	if ((pid_t)pid == getpid() || process_is_kernels(looks, (pid_t)pid))
		return fault_set(why, -EINVAL, "process %u is %s: it cannot keep a tenant", pid,
				 (pid_t)pid == getpid() ? "meted itself" : "the kernel's");
	k = calloc(1, sizeof(*k));
	if (!k)
		return fault_set(why, -ENOMEM, "out of memory");
	k->tenant = t;
	k->pid = (pid_t)pid;
	if (process_open(looks, k->pid, process_started(looks, k->pid), &k->pidfd) < 0) {
		free(k);
		return fault_set(why, -ESRCH, "there is no process %u", pid);
	}
	if (loop_watch(&t->daemon->loop, &k->death, k->pidfd, LOOP_READ, on_death) < 0) {
		close(k->pidfd);
		free(k);
		return fault_set(why, -ENOSPC, "process %u cannot be watched", pid);
	}
	list_append(&t->processes, &k->link);
	return 0;
}

pid_t keeper_first(const struct tenant *t)
{
	list_for_each(link, (struct list *)&t->processes) return list_entry(link, struct keeper,
									    link)
		->pid;
	return 0;
}

uint32_t keeper_signal(const struct tenant *t, int signal)
{
	uint32_t count = 0;

	list_for_each(link, (struct list *)&t->processes)
	{
		const struct keeper *k = list_entry(link, struct keeper, link);

		count += syscall(SYS_pidfd_send_signal, k->pidfd, signal, NULL, 0) == 0;
	}
	return count;
}

bool keeper_has(const struct tenant *t, pid_t pid)
{
	return keeper_place(t, &pid, 1) == 0;
}

uint32_t keeper_place(const struct tenant *t, const pid_t *ancestors, uint32_t count)
{
	list_for_each(link, (struct list *)&t->processes)
	{
		const struct keeper *k = list_entry(link, struct keeper, link);

		for (uint32_t i = 0; i < count; i++)
			if (ancestors[i] == k->pid && !process_ended(k->pidfd))
				count = i;
	}
	return count;
}

void keeper_forget(struct tenant *t)
{
	list_for_each(link, &t->processes) drop(list_entry(link, struct keeper, link));
}
