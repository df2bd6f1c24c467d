/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/hang.h"

#include <signal.h>
#include <sys/syscall.h>

#include "node/daemon.h"
#include "node/events.h"

/* Uses the pidfds, so that no other process can be hit. */
void hang_kill(struct tenant *t)
{
	list_for_each(link, &t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);

		syscall(SYS_pidfd_send_signal, g->pidfd, SIGKILL, NULL, 0);
	}
}

void hang_log(const struct tenant_device *at, const char *event)
{
	log_warning(event, "tenant=%u name=%s device=%u", at->tenant->id,
		    log_text(at->tenant->name).text, at->index);
}

void hang_stuck(struct tenant_device *at)
{
	events_at(at, HAPPENED_STUCK, "its memory does not leave the device as it was told");
	if (at->tenant->share.escalate != SHARE_KILL)
		return;
	hang_log(at, "tenant.killed");
	events_at(at, HAPPENED_KILLED, "its processes were killed for that (escalate=kill)");
	hang_kill(at->tenant);
}
