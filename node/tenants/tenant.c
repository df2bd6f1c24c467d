/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/tenant.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "node/events.h"
#include "node/memory/book.h"
#include "node/memory/native.h"
#include "node/memory/remains.h"
#include "node/move/move_suspend.h"
#include "node/move/store.h"
#include "node/peers/door.h"
#include "node/peers/flow.h"
#include "node/state/recorder.h"
#include "node/tenants/change.h"
#include "node/tenants/guest.h"
#include "node/tenants/keeper.h"
#include "node/tenants/nested.h"
#include "node/tenants/page.h"
#include "node/tenants/share_text.h"
#include "node/tenants/tenant_find.h"
#include "node/tenants/tenant_show.h"
#include "node/tenants/tenant_spec.h"
#include "node/time/schedule.h"
#include "node/upcalls.h"
#include "node/users/user.h"

enum { SOCKET_MAX = 108 }; /* of its path, with its end */

/* Stops listening for a while, so that waiting connections do not keep the loop awake. */
static void rest(struct tenant *t)
{
	t->resting = true;
	loop_rewatch(&t->listener, 0);
	flow_pause(&t->daemon->flows, &t->pause, DAEMON_PAUSE_MS * 1000000ull);
}

static void on_rested(struct flow_pause *pause)
{
	struct tenant *t = container_of(pause, struct tenant, pause);

	t->resting = false;
	loop_rewatch(&t->listener, LOOP_READ);
}

static bool on_turn(struct flow_item *item)
{
	struct tenant *t = container_of(item, struct tenant, calls);

	if (t->leaving)
		return false;
	if (!flow_pay(&t->flow, FLOW_CONNECTION) || caller_accept(t) == -EMFILE)
		rest(t);
	return false;
}

static void on_hush(struct flow_item *item, bool hushed)
{
	struct tenant *t = container_of(item, struct tenant, calls);

	loop_rewatch(&t->listener, hushed || t->resting ? 0 : LOOP_READ);
}

static void on_connection(struct loop_watch *watch, int events)
{
	(void)events;
	flow_want(&container_of(watch, struct tenant, listener)->calls);
}

static int make_page(struct tenant *t, struct fault *why)
{
	int r = page_make(&t->page, "mete-tenant", PAGE_GUEST_READS);

	if (r < 0)
		return fault_set(why, r, "cannot create shared memory: %s", strerror(-r));
	t->shown = t->page.memory;
	t->shown->magic = WIRE_PAGE_MAGIC;
	t->shown->size = sizeof(*t->shown);
	t->shown->devices = t->devices;
	t->shown->clock_dilation = t->daemon->clock_dilation;
	t->shown->daemon_pid = (uint32_t)getpid();
	t->shown->daemon_generation = t->daemon->generation;
	for (uint32_t i = 0; i < t->devices; i++) {
		const struct nvml_device *info = t->daemon->device[t->device[i].index].info;

		memcpy(t->shown->device[i].uuid, info->uuid, sizeof(info->uuid));
		t->shown->device[i].total_bytes = info->total_bytes;
		tenant_show(t, i);
	}
	tenant_show_share(t);
	return 0;
}

/* Every user may pass through the system's folders, so that a tenant's programs may run as any
 * user. Only those who belong to the tenant know the rest of its folder's name; nobody else can
 * list or guess it. */
static int name_folder(const struct tenant *t, bool restored, char *ret_name, size_t size,
		       struct fault *why)
{
	char tenants[PLACE_MAX + 16];
	uint64_t secret;

	snprintf(ret_name, size, "%u", t->id);
	if (!t->daemon->options.system)
		return 0;
	snprintf(tenants, sizeof(tenants), "%s/tenants", t->daemon->place);
	if (restored && tenant_find_folder_name(tenants, t->id, ret_name, size))
		return 0;
	if (getrandom(&secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return fault_set(why, -EIO, "cannot get a random number: %s", strerror(errno));
	snprintf(ret_name, size, "%u-%016" PRIx64, t->id, secret);
	return 0;
}

void tenant_folder(const struct tenant *t, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "%.*s", (int)(strrchr(t->socket, '/') - t->socket), t->socket);
}

static int make_socket(struct tenant *t, bool restored, struct fault *why)
{
	struct daemon *d = t->daemon;
	char name[48], folder[SOCKET_MAX], socket[SOCKET_MAX];
	int r = name_folder(t, restored, name, sizeof(name), why);

	if (r < 0)
		return r;
	if (snprintf(folder, sizeof(folder), "%s/tenants/%s", d->place, name) >=
		    (int)sizeof(folder) ||
	    snprintf(socket, sizeof(socket), "%s/guest.sock", folder) >= (int)sizeof(socket))
		return fault_set(why, -ENAMETOOLONG, "%s: too long for a socket's path", d->place);
	t->socket = strdup(socket);
	if (!t->socket)
		return fault_set(why, -ENOMEM, "out of memory");
	r = place_make(folder, d->options.system ? PLACE_PASSAGE : PLACE_PRIVATE, why);
	if (r < 0)
		return r;
	/* Programs of root's tenants may run as any user: the folder's name is the secret. */
	r = door_listen(t->socket, d->options.system && !t->user ? 0666 : 0600,
			t->user ? t->owner : geteuid(), &t->listen_fd, why);
	if (r < 0)
		return r;
	r = loop_watch(&d->loop, &t->listener, t->listen_fd, LOOP_READ, on_connection);
	return r < 0 ? fault_set(why, r, "%s: %s", t->socket, uv_strerror(r)) : 0;
}

/* Makes the account a part of the outer tenant's, or of the user's. */
static void put_within(struct tenant *t, uint32_t device)
{
	uint32_t index = t->device[device].index;
	struct ledger_account *above = t->outer	 ? nested_account(t->outer, index)
				       : t->user ? t->user->account[index]
						 : NULL;

	if (above)
		ledger_put_within(t->device[device].account, above);
}

/* `before`: the tenant is older than this daemon, and stays whatever its limit is. */
static int make_accounts(struct tenant *t, bool before, struct fault *why)
{
	struct daemon *d = t->daemon;

	for (uint32_t i = 0; i < t->devices; i++) {
		struct device *device = &d->device[t->device[i].index];
		uint64_t limit;
		int r = change_limit(d, &t->share, t->device[i].index,
				     share_text_of(t->texts, share_index("memory")), &limit, why);

		if (r == 0 && !before)
			r = change_holds_context(d, t->device[i].index, limit, why);
		if (r == 0 && !before)
			r = change_oversize(t, &t->share, t->device[i].index, limit, why);
		if (r < 0)
			return r;
		t->device[i].account =
			ledger_open(d->book.ledger, t->device[i].index, limit, t->share.wait_ns);
		if (!t->device[i].account)
			return fault_set(why, -ENOSPC, "at most %d tenants are possible",
					 DAEMON_TENANTS);
		put_within(t, i);
		t->device[i].tenant = t;
		list_init(&t->device[i].asks);
		list_append(&device->tenants, &t->device[i].link);
		device->registered++;
		device->promised_bytes += t->outer ? 0 : limit;
	}
	return 0;
}

static void close_accounts(struct tenant *t)
{
	struct user *user = take(t->user);
	struct daemon *d = t->daemon;

	for (uint32_t i = 0; i < t->devices && t->device[i].account; i++) {
		struct device *device = &d->device[t->device[i].index];
		struct ledger_sums sums;

		ledger_account_sums(t->device[i].account, &sums);
		list_remove(&t->device[i].link);
		list_remove(&t->device[i].held);
		list_remove(&t->device[i].wait.link);
		device->registered--;
		device->promised_bytes -= t->outer ? 0 : sums.limit;
		remains_end_of(&t->device[i], user);
		ledger_close(d->book.ledger, take(t->device[i].account));
	}
	if (user) {
		user->tenants--;
		user_maybe_end(user);
	}
}

static void free_tenant(struct tenant *t)
{
	share_texts_free(t->texts);
	free(t->name);
	free(t->socket);
	page_done(&t->page);
	for (uint32_t i = 0; i < t->devices; i++)
		free(t->device[i].time_owed);
	free(t);
}

static void on_listener_closed(struct loop_watch *watch)
{
	struct tenant *t = container_of(watch, struct tenant, listener);

	flows_gave_back(&t->daemon->flows);
	discard_listener(&t->daemon->flows.discarder, t->listen_fd);
	free_tenant(t);
}

static void remove_files(struct tenant *t)
{
	char folder[SOCKET_MAX];

	unlink(t->socket);
	tenant_folder(t, folder, sizeof(folder));
	rmdir(folder);
}

/* Undoes what was made before something failed. */
static void undo(struct tenant *t)
{
	close_accounts(t);
	if (t->listen_fd >= 0)
		remove_files(t);
	if (t->listener.open) {
		loop_unwatch(&t->listener, on_listener_closed);
		return;
	}
	if (t->listen_fd >= 0)
		discard_listener(&t->daemon->flows.discarder, t->listen_fd);
	free_tenant(t);
}

static int fill(struct tenant *t, const struct tenant_spec *spec, struct fault *why)
{
	share_init(&t->share);
	for (uint32_t i = 0; share_key(i); i++) {
		const struct change one = {share_key(i), spec->texts[i]};
		int r;

		if (!spec->texts[i] || !*spec->texts[i])
			continue;
		r = change_field(&t->share, &one, why);
		if (r < 0)
			return r;
		if (share_text_add(&t->texts, i, spec->texts[i]) < 0)
			return fault_set(why, -ENOMEM, "out of memory");
	}
	return 0;
}

/* With nothing yet that somebody else could see. NULL: there is no memory for it. */
static struct tenant *prepare(struct daemon *d, const struct tenant_spec *spec)
{
	struct tenant *t = calloc(1, sizeof(*t) + spec->devices * sizeof(t->device[0]));

	if (!t || !(t->name = strndup(spec->name, WIRE_TEXT_MAX))) {
		free(t);
		return NULL;
	}
	t->daemon = d;
	t->id = spec->id ? spec->id : ++d->tenants.last_id;
	t->owner = spec->owner;
	t->made_ns = loop_now_ns();
	t->outer = spec->outer;
	t->observes = spec->observes;
	t->pods = spec->pods;
	t->listen_fd = t->page.fd = -1;
	flow_init(&t->flow, &d->flows);
	t->calls = (struct flow_item){.flow = &t->flow, .work = on_turn, .hush = on_hush};
	t->pause.over = on_rested;
	text_make_plain(t->name);
	list_init(&t->guests);
	list_init(&t->callers);
	list_init(&t->processes);
	t->devices = spec->devices;
	for (uint32_t i = 0; i < t->devices; i++)
		t->device[i].index = spec->device[i];
	return t;
}

/* Its share, accounts, page and socket. */
static int furnish(struct tenant *t, const struct tenant_spec *spec, struct fault *why)
{
	int r = user_find(t->daemon, spec->owner, &t->user);

	if (r < 0)
		r = fault_set(why, r, "at most %d users are possible", DAEMON_USERS);
	if (t->user)
		t->user->tenants++;
	if (r == 0)
		r = fill(t, spec, why);
	if (r == 0)
		r = make_accounts(t, spec->id != 0, why);
	schedule_tenant(t);
	if (r == 0)
		r = make_page(t, why);
	return r == 0 ? make_socket(t, spec->id != 0, why) : r;
}

int tenant_make(struct daemon *d, const struct tenant_spec *spec, struct tenant **ret_tenant,
		struct fault *why)
{
	struct tenant *t;
	int r;

	if (d->tenants.count >= DAEMON_TENANTS)
		return fault_set(why, -ENOSPC, "at most %d tenants are possible", DAEMON_TENANTS);
	t = prepare(d, spec);
	if (!t)
		return fault_set(why, -ENOMEM, "out of memory");
	r = furnish(t, spec, why);
	if (r < 0) {
		undo(t);
		return r;
	}
	for (uint32_t i = 0; i < t->devices; i++)
		ledger_watch(t->device[i].account, &t->device[i]);
	list_append(&d->tenants.all, &t->link);
	list_append(&d->tenants.by_id[t->id % DAEMON_IDS], &t->same_id);
	d->tenants.count++;
	if (t->outer)
		nested_join(t);
	native_tenant(t);
	book_pump(d); /* shows the others that they have a rival */
	log_info("tenant.made", "tenant=%u name=%s limit_bytes=%" PRIu64 " device=%s", t->id,
		 log_text(t->name).text, t->shown->device[0].limit_bytes,
		 d->device[t->device[0].index].info->uuid_text);
	if (spec->id == 0) /* not of before meted began */
		events_at(&t->device[0], HAPPENED_CAME, "a new tenant, with a limit of %s",
			  text_bytes(t->shown->device[0].limit_bytes).text);
	*ret_tenant = t;
	return 0;
}

void tenant_end(struct tenant *t)
{
	struct daemon *d = t->daemon;

	if (t->leaving)
		return;
	t->leaving = true;
	list_for_each(link, &t->guests) guest_leave(list_entry(link, struct guest, link),
						    d->stopping ? NULL : "its tenant has ended");
	list_for_each(link, &t->callers) caller_close(list_entry(link, struct caller, link));
	keeper_forget(t);
	move_suspend_void(t, "it has ended");
	list_remove(&t->link);
	list_remove(&t->same_id);
	flow_done(&t->flow);
	flow_go_on(&t->pause);
	d->tenants.count--;
	nested_lift(t);
	native_tenant(t);
	close_accounts(t);
	/* If its programs go on without us, the socket stays: a guest that connects meanwhile
	 * retries. */
	if (!d->stopping) {
		remove_files(t);
		recorder_tenant_gone(d, t->id);
	}
	if (d->stopping)
		store_forget(take(t->store));
	else
		store_close(take(t->store));
	log_info("tenant.ended", "tenant=%u name=%s", t->id, log_text(t->name).text);
	if (t->joins)
		events_tenant(t, HAPPENED_LEFT, "ended, after %" PRIu64 " process%s", t->joins,
			      t->joins == 1 ? "" : "es");
	else
		events_tenant(t, HAPPENED_LEFT, "ended; no process of it has used a GPU");
	nested_leave(t); /* the outer one may have waited for this */
	loop_unwatch(&t->listener, on_listener_closed);
	book_pump(d);
	daemon_maybe_end(d);
}

void tenant_keep(struct tenant *t)
{
	t->keepers++;
	t->kept = true;
}

void tenant_retire(struct tenant *t)
{
	if (t->keepers)
		t->keepers--;
	/* The folder stays, because it is mounted. Without the socket it leads nowhere. */
	unlink(t->socket);
	tenant_maybe_end(t);
}

void tenant_maybe_end(struct tenant *t)
{
	/* After a restart, those who kept the tenant before may still return to keep it. */
	if (!t->keepers && list_empty(&t->processes) && list_empty(&t->guests) &&
	    list_empty(&t->callers) && !t->nested && (t->kept || !t->daemon->restore.waiting) &&
	    !t->daemon->stopping)
		tenant_end(t);
}
