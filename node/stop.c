/* SPDX-License-Identifier: Apache-2.0 */
#include "node/stop.h"

#include "base/discard.h"
#include "base/journal.h"
#include "node/daemon.h"
#include "node/devices/boards.h"
#include "node/devices/divided.h"
#include "node/devices/mark.h"
#include "node/devices/nvml.h"
#include "node/devices/reserve.h"
#include "node/events.h"
#include "node/kubernetes.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/native.h"
#include "node/memory/outside.h"
#include "node/memory/watch.h"
#include "node/missing.h"
#include "node/move/move.h"
#include "node/move/store.h"
#include "node/notify.h"
#include "node/peers/admin.h"
#include "node/peers/admin_accept.h"
#include "node/peers/flow.h"
#include "node/shown.h"
#include "node/standby.h"
#include "node/state/absent.h"
#include "node/state/events_file.h"
#include "node/tenants/tenant.h"
#include "node/time/gate.h"
#include "node/time/lost.h"
#include "node/time/owed.h"
#include "node/time/schedule.h"
#include "node/users/user.h"
#include "node/waits.h"

static void close_admins(struct daemon *d)
{
	char path[PLACE_MAX + 16];

	if (!d->admins.listener.open)
		return;
	loop_unwatch(&d->admins.listener, NULL);
	discard_listener(&d->flows.discarder, d->admins.fd);
	snprintf(path, sizeof(path), "%s/admin.sock", d->place);
	unlink(path);
}

/* Guests continue without us and reconnect to our successor. Their tenants therefore stay in the
 * journal, and so do the reservations of `mete pick`. The journal is removed only if nobody is
 * left. */
static void stop_serving(struct daemon *d)
{
	bool nobody = list_empty(&d->tenants.all) && !reserve_any(d) && !absent_any(d);

	d->stopping = true;
	/* We are already stopping: a signal must not interrupt the clean end, and the driver's
	 * threads do not block it. */
	loop_signal_keep(&d->terminate);
	loop_signal_keep(&d->interrupt);
	if (!d->missing.again)
		notify_send("STOPPING=1");
	missing_close(d);
	standby_close(d);
	shown_close(d->shown); /* it asks Kubernetes' part who may see what */
	kubernetes_close(d->kubernetes);
	admin_close_all(d);
	owed_end(d);
	list_for_each(link, &d->tenants.all) tenant_end(list_entry(link, struct tenant, link));
	stores_close(&d->move.stores);
	close_admins(d);
	journal_close(&d->restore.journal);
	absent_close(d);
	if (nobody && d->restore.journal.path[0])
		unlink(d->restore.journal.path);
}

static void close_parts(struct daemon *d)
{
	loop_timer_close(&d->watchdog, NULL);
	loop_timer_close(&d->admins.pause, NULL);
	/* Users that are still being served leave the flows first. */
	events_file_close(d);
	events_free(d);
	user_close(d);
	flows_close(&d->flows);
	loop_timer_close(&d->restore.grace, NULL);
	reserve_close(d);
	mark_close(d);
	divided_close(d);
	boards_close(d);
	gates_close(d);
	waits_close(d);
	lost_close(d);
	schedule_close(d);
	measure_close(d);
	outside_close(d);
	watch_close(d);
	native_close(d);
	move_close(d);
	book_close(d);
	loop_done(&d->loop);
}

static void free_parts(struct daemon *d)
{
	free(d->marks);
	kubernetes_free(d->kubernetes);
	standby_free(d);
	shown_free(d->shown);
	native_free(d);
	nvml_close(d->nvml);
	if (d->lock_fd >= 0)
		close(d->lock_fd);
}

void daemon_stop(struct daemon *d)
{
	stop_serving(d);
	/* A driver that does not answer blocks its thread, and would block our end. What the API
	 * server is told is bounded, and must not depend on what the driver is doing just now. */
	if (loop_is_working(&d->loop)) {
		while (kubernetes_is_leaving(d->kubernetes) && loop_once(&d->loop))
			;
		if (!d->missing.again)
			_exit(0);
		return; /* our successor takes the place of these threads, too */
	}
	close_parts(d);
	free_parts(d);
}
