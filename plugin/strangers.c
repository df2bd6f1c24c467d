/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes in pods that use a device and are not guests: programs that use the device file
 * directly, or that brought their own driver. No library can stop them. The driver lists them, so
 * they are reported, or killed (the share's field unannounced, or mete.unannounced). Processes
 * outside pods belong to no tenant and are left alone.
 */

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "plugin/mps/mps.h"
#include "plugin/plugin.h"
#include "plugin/config/portion.h"

enum { CGROUP_MOST = 64 << 10, EVENTS_MOST = 8 };

static int pod_of(uint32_t pid, char ret_uid[STRANGERS_UID])
{
	owned(free) char *text = NULL;
	char path[40];
	size_t size;

	snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
	if (file_slurp(path, CGROUP_MOST, &text, &size) < 0)
		return -ENOENT;
	return strangers_pod(text, ret_uid);
}

/* The number may belong to another process by now: the process of the descriptor is checked. */
void strangers_kill(uint32_t pid, const char *uid)
{
	owned(close) int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	char now[STRANGERS_UID];

	if (fd >= 0 && pod_of(pid, now) == 0 && strcmp(now, uid) == 0)
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

static bool was_there(const uint32_t *pids, uint32_t count, uint32_t pid)
{
	for (uint32_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static bool is_of(const struct binding *b, uint32_t device, const char *uid)
{
	return strcmp(b->uid, uid) == 0 && binding_place(b, device) >= 0;
}

bool strangers_dies(const struct plugin *p, const struct binding *b)
{
	const char *text = b->texts[PORTION_unannounced];

	return text ? strcmp(text, "kill") == 0 : p->config->strangers == CONFIG_STRANGERS_KILL;
}

/* It is unknown to which of a pod's containers a process belongs: one that requests this
 * suffices. For pods without a share of the device the node's setting decides. This uses the
 * decided texts, not those of the figures, which are truncated: pods choose how long theirs are. */
static bool is_to_die(const struct plugin *p, uint32_t device, const char *uid)
{
	bool said = false, dies = false;

	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (!is_of(b, device, uid))
			continue;
		said = true;
		dies |= strangers_dies(p, b);
	}
	return said ? dies : p->config->strangers == CONFIG_STRANGERS_KILL;
}

/* A guest whose tenant is absent cannot announce itself again. */
static bool is_absent(const struct plugin *p, const char *uid)
{
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (b->absent && strcmp(b->uid, uid) == 0)
			return true;
	}
	return false;
}

bool strangers_may_say(struct plugin *p)
{
	if (!p->strangers.events)
		return false;
	p->strangers.events--;
	return true;
}

/* `kubectl describe pod` shows it, too, unless the pod has very many of them. */
static void tell(struct plugin *p, const struct pod *pod, uint32_t pid, uint32_t device, bool dies)
{
	const char *uuid = p->host->device[device].uuid;
	struct fault what;

	fault_set(
		&what, 0,
		"process %u uses device %s without mete: it uses the device file itself, or has a "
		"driver of its own%s",
		pid, uuid, dies ? "; it was killed (unannounced: kill)" : "");
	p->host->happened(p->host->daemon, 0, device, dies ? HAPPENED_KILLED : HAPPENED_STRANGER,
			  what.text);
	if (!pod || !strangers_may_say(p))
		return;
	events_pod(p, pod, dies ? "GPUProcessKilled" : "GPUProcessUnannounced", what.text);
}

/* Its container is unknown: it counts for each of the pod's containers. */
static void count(struct plugin *p, uint32_t device, const char *uid, uint64_t used_bytes)
{
	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		if (is_of(b, device, uid))
			b->unannounced[binding_place(b, device)] += used_bytes;
	}
}

static void on_stranger(void *owner, uint32_t device, uint32_t pid, uint64_t used_bytes)
{
	struct plugin *p = owner;
	const char *uuid = p->host->device[device].uuid;
	struct strangers *s = &p->strangers;
	bool again = was_there(s->before, s->before_count, pid);
	char uid[STRANGERS_UID];
	const struct pod *pod;
	bool dies;

	/* A device that is not shared out has another owner, and its users are that owner's.
	 * Containers for whose end MPS waits are no tenants. */
	if (!(p->offer[device].shared || p->offer[device].claimed) || pod_of(pid, uid) < 0 ||
	    is_absent(p, uid) || mps_waits(p->mps, device))
		return;
	/* A process on several devices is judged on each: their shares may differ. */
	if (!was_there(s->now, s->count, pid)) {
		if (s->count == STRANGERS_MAX)
			return;
		s->now[s->count++] = pid;
	}
	count(p, device, uid, used_bytes);
	pod = p->pods ? pods_find_uid(p->pods, uid) : NULL;
	/* A process seen only once may be about to end, like a guest that has left. */
	if (!again)
		return;
	dies = is_to_die(p, device, uid);
	if (!was_there(s->told, s->told_count, pid)) {
		if (s->told_count < STRANGERS_MAX)
			s->told[s->told_count++] = pid;
		log_warning("process.unannounced", "pid=%u pod=%s/%s uid=%s uuid=%s bytes=%llu",
			    pid, pod ? pod->namespace : "", pod ? pod->name : "", uid, uuid,
			    (unsigned long long)used_bytes);
		tell(p, pod, pid, device, dies);
	}
	if (dies) {
		log_warning("process.killed", "pid=%u uid=%s uuid=%s", pid, uid, uuid);
		strangers_kill(pid, uid);
	}
}

/* Forgets processes that are gone: their numbers may be reused. */
static void forget(struct strangers *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->told_count; i++)
		if (was_there(s->now, s->count, s->told[i]))
			s->told[n++] = s->told[i];
	s->told_count = n;
	memcpy(s->before, s->now, s->count * sizeof(s->now[0]));
	s->before_count = s->count;
}

void strangers_look(struct plugin *p)
{
	const struct host_reader reader = {.owner = p, .stranger = on_stranger};

	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		memset(b->unannounced, 0, sizeof(b->unannounced));
	}
	p->strangers.count = 0;
	p->strangers.events += p->strangers.events < EVENTS_MOST;
	p->host->rows(p->host->daemon, &reader);
	forget(&p->strangers);
}
