/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/keeper.h"

static struct tenant_device *device_of(struct tenant *t, uint32_t device)
{
	return &t->device[device];
}

struct tenant *tenant_find(struct daemon *d, uint32_t id)
{
	list_for_each(link, &d->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (t->id == id)
			return t;
	}
	return NULL;
}

struct tenant *tenant_find_by_name(struct daemon *d, const char *name)
{
	list_for_each(link, &d->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (strcmp(t->name, name) == 0)
			return t;
	}
	return NULL;
}

static int unknown_field(const char *key, struct fault *why)
{
	int r = fault_set(why, -EINVAL, "'%.60s' is no field of a share; there are:", key);

	for (uint32_t i = 0; share_key(i); i++) {
		size_t n = strlen(why->text);

		snprintf(why->text + n, sizeof(why->text) - n, "%s %s", i ? "," : "", share_key(i));
	}
	return r;
}

/* One field of a share, with a sentence where it is not accepted. */
static int set_field(struct share *share, const char *key, const char *value, struct fault *why)
{
	int r = share_set(share, key, value);

	if (r == 0)
		return 0;
	if (r == SHARE_KEY)
		return unknown_field(key, why);
	return fault_set(why, -EINVAL, "%s: '%.60s' %s; accepted: %s", key, value, share_problem(r),
			 share_accepts(key));
}

/* The limit on one of the daemon's devices. */
static int limit_on(struct daemon *d, const struct share *share, uint32_t index, const char *text,
		    uint64_t *ret_bytes, struct fault *why)
{
	const struct nvml_device *info = d->device[index].info;
	int r = share_bytes(&share->memory, info->total_bytes, ret_bytes);

	if (r == 0)
		return 0;
	/* It travels in WIRE_TEXT_MAX bytes, and what is accepted comes last. */
	return fault_set(why, -EINVAL, "memory: '%.20s' %s: %.40s has %s; accepted: %s",
			 text ? text : "", share_problem(r), info->uuid_text,
			 text_bytes(info->total_bytes).text, share_accepts("memory"));
}

void tenant_show(struct tenant *t)
{
	struct daemon *d = t->daemon;

	for (uint32_t i = 0; i < t->devices; i++) {
		struct wire_tenant_device *shown = &t->shown->device[i];
		struct ledger_sums own, all;
		uint64_t in_use, room;

		ledger_account_sums(t->device[i].account, &own);
		ledger_device_sums(d->ledger, t->device[i].index, &all);
		if (own.granted + own.residual > t->device[i].most_bytes)
			restore_held(t, i, own.granted + own.residual, own.limit);
		in_use = all.granted - all.evicted + all.residual;
		room = in_use < all.limit ? all.limit - in_use : 0;
		__atomic_store_n(&shown->limit_bytes, own.limit, __ATOMIC_RELAXED);
		__atomic_store_n(&shown->used_bytes, own.allocated + own.residual,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&shown->granted_bytes, own.granted + own.residual,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&shown->room_bytes, room, __ATOMIC_RELAXED);
		__atomic_store_n(&shown->rivals, d->device[t->device[i].index].registered - 1,
				 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&t->shown->on_daemon_loss, (uint32_t)t->share.on_daemon_loss,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&t->shown->strict, t->share.strict, __ATOMIC_RELAXED);
	__atomic_fetch_add(&t->shown->epoch, 1, __ATOMIC_RELEASE);
}

static void on_connection(struct loop_watch *watch, int events)
{
	(void)events;
	guest_accept(container_of(watch, struct tenant, listener));
}

static int make_page(struct tenant *t, struct fault *why)
{
	int r = page_make(&t->page, "mete-tenant", PAGE_GUEST_READS);

	if (r < 0)
		return fault_set(why, r, "no shared memory: %s", strerror(-r));
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
	}
	return 0;
}

static int make_socket(struct tenant *t, struct fault *why)
{
	struct daemon *d = t->daemon;
	unsigned mode = d->options.system ? 0777 : 0700;
	int r;

	if (snprintf(t->socket, sizeof(t->socket), "%s/tenants/%u/guest.sock", d->place, t->id) >=
	    (int)sizeof(t->socket))
		return fault_set(why, -ENAMETOOLONG, "%s: too long for a socket's path", d->place);
	snprintf(t->folder, sizeof(t->folder), "%s/tenants/%u", d->place, t->id);
	if (mkdir(t->folder, mode) != 0 && errno != EEXIST)
		return fault_set(why, -errno, "%s: %s", t->folder, strerror(errno));
	if (d->options.system)
		chmod(t->folder, 0755);
	r = daemon_listen(t->socket, d->options.system ? 0666 : 0600, &t->listen_fd, why);
	if (r < 0)
		return r;
	r = loop_watch(&d->loop, &t->listener, t->listen_fd, LOOP_READ, on_connection);
	return r < 0 ? fault_set(why, r, "%s: %s", t->socket, uv_strerror(r)) : 0;
}

static int make_accounts(struct tenant *t, struct fault *why)
{
	struct daemon *d = t->daemon;

	for (uint32_t i = 0; i < t->devices; i++) {
		struct device *device = &d->device[t->device[i].index];
		uint64_t limit;
		int r = limit_on(d, &t->share, t->device[i].index, t->texts[0], &limit, why);

		if (r < 0)
			return r;
		t->device[i].account =
			ledger_open(d->ledger, t->device[i].index, limit, t->share.wait_ns);
		if (!t->device[i].account)
			return fault_set(why, -ENOSPC, "no more than %d tenants", DAEMON_TENANTS);
		device->registered++;
		device->promised_bytes += limit;
	}
	return 0;
}

static void close_accounts(struct tenant *t)
{
	struct daemon *d = t->daemon;

	for (uint32_t i = 0; i < t->devices && t->device[i].account; i++) {
		struct device *device = &d->device[t->device[i].index];
		struct ledger_sums sums;

		ledger_account_sums(t->device[i].account, &sums);
		device->registered--;
		device->promised_bytes -= sums.limit;
		ledger_close(d->ledger, take(t->device[i].account));
	}
}

static void free_tenant(struct tenant *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->texts); i++)
		free(t->texts[i]);
	page_done(&t->page);
	free(t);
}

static void on_listener_closed(struct loop_watch *watch)
{
	struct tenant *t = container_of(watch, struct tenant, listener);

	close(t->listen_fd);
	free_tenant(t);
}

static void remove_files(struct tenant *t)
{
	unlink(t->socket);
	rmdir(t->folder);
}

/* What was made before something failed. */
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
		close(t->listen_fd);
	free_tenant(t);
}

static int fill(struct tenant *t, const struct tenant_spec *spec, struct fault *why)
{
	share_init(&t->share);
	for (uint32_t i = 0; share_key(i); i++) {
		int r;

		if (!spec->texts[i] || !*spec->texts[i])
			continue;
		r = set_field(&t->share, share_key(i), spec->texts[i], why);
		if (r < 0)
			return r;
		t->texts[i] = strdup(spec->texts[i]);
		if (!t->texts[i])
			return fault_set(why, -ENOMEM, "out of memory");
	}
	return 0;
}

int tenant_make(struct daemon *d, const struct tenant_spec *spec, struct tenant **ret_tenant,
		struct fault *why)
{
	struct tenant *t;
	int r;

	if (d->tenant_count >= DAEMON_TENANTS)
		return fault_set(why, -ENOSPC, "no more than %d tenants", DAEMON_TENANTS);
	t = calloc(1, sizeof(*t));
	if (!t)
		return fault_set(why, -ENOMEM, "out of memory");
	t->daemon = d;
	t->id = spec->id ? spec->id : ++d->last_tenant;
	t->owner = spec->owner;
	t->listen_fd = t->page.fd = -1;
	snprintf(t->name, sizeof(t->name), "%s", spec->name);
	list_init(&t->guests);
	list_init(&t->expected);
	list_init(&t->processes);
	t->devices = spec->devices;
	for (uint32_t i = 0; i < t->devices; i++)
		t->device[i].index = spec->device[i];
	r = fill(t, spec, why);
	if (r == 0)
		r = make_accounts(t, why);
	if (r == 0)
		r = make_page(t, why);
	if (r == 0)
		r = make_socket(t, why);
	if (r < 0) {
		undo(t);
		return r;
	}
	list_append(&d->tenants, &t->link);
	d->tenant_count++;
	book_pump(d); /* the others see a rival */
	log_info("tenant.made", "tenant=%u name=%s limit_bytes=%" PRIu64 " device=%s", t->id,
		 log_text(t->name).text, t->shown->device[0].limit_bytes,
		 d->device[t->device[0].index].info->uuid_text);
	*ret_tenant = t;
	return 0;
}

int tenant_set(struct tenant *t, const char *key, const char *value, struct fault *why)
{
	struct daemon *d = t->daemon;
	struct share share = t->share;
	uint64_t limits[WIRE_DEVICES] = {0};
	uint32_t field = 0;
	char *text;
	int r = set_field(&share, key, value, why);

	for (uint32_t i = 0; r == 0 && i < t->devices; i++)
		r = limit_on(d, &share, t->device[i].index, value, &limits[i], why);
	if (r < 0)
		return r;
	text = strdup(value);
	if (!text)
		return fault_set(why, -ENOMEM, "out of memory");
	while (strcmp(share_key(field), key) != 0)
		field++;
	free(t->texts[field]);
	t->texts[field] = text;
	t->share = share;
	for (uint32_t i = 0; i < t->devices; i++) {
		struct ledger_sums sums;

		ledger_account_sums(t->device[i].account, &sums);
		d->device[t->device[i].index].promised_bytes += limits[i] - sums.limit;
		ledger_set_limit(d->ledger, t->device[i].account, limits[i], share.wait_ns);
	}
	log_info("tenant.set", "tenant=%u key=%s value=%s", t->id, key, log_text(value).text);
	restore_tenant(t);
	book_pump(d);
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
	restore_forget(t);
	keeper_forget(t);
	list_remove(&t->link);
	d->tenant_count--;
	close_accounts(t);
	/* Where it goes on without us its socket stays: who connects meanwhile tries again. */
	if (!d->stopping) {
		remove_files(t);
		restore_tenant_gone(d, t->id);
	}
	log_info("tenant.ended", "tenant=%u name=%s", t->id, log_text(t->name).text);
	loop_unwatch(&t->listener, on_listener_closed);
	book_pump(d);
	daemon_maybe_end(d);
}

void tenant_maybe_end(struct tenant *t)
{
	/* After a restart whoever kept it before may still come to do so again. */
	if (!t->keepers && list_empty(&t->processes) && list_empty(&t->guests) &&
	    list_empty(&t->expected) && (t->kept || !t->daemon->restoring) && !t->daemon->stopping)
		tenant_end(t);
}

static void wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void answer_wait(struct tenant_device *at, bool done)
{
	struct gate_wait wait = at->waiting;

	at->waiting = (struct gate_wait){NULL, 0};
	if (wait.peer && done)
		peer_done(wait.peer, wait.id, 0);
	else if (wait.peer)
		peer_refuse(wait.peer, wait.id, WIRE_REFUSED_BAD,
			    "the gate was changed again before every process had drained");
}

void tenant_gate_check(struct tenant *t, uint32_t device)
{
	struct wire_tenant_device *shown = &t->shown->device[device];

	if (shown->gate == WIRE_GATE_CLOSING) {
		list_for_each(link, &t->guests)
		{
			const struct guest *g = list_entry(link, struct guest, link);

			if (g->joined && g->device[device].owes_drain)
				return;
		}
		__atomic_store_n(&shown->gate, WIRE_GATE_CLOSED, __ATOMIC_SEQ_CST);
	}
	if (shown->gate == WIRE_GATE_CLOSED)
		answer_wait(device_of(t, device), true);
}

static void change_gate(struct tenant *t, uint32_t device, uint32_t state)
{
	struct wire_tenant_device *shown = &t->shown->device[device];
	bool was_open = shown->gate == WIRE_GATE_OPEN, is_open = state == WIRE_GATE_OPEN;

	/* The epoch first: who sees the new word finds the epoch that it must acknowledge. */
	__atomic_fetch_add(&shown->epoch, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&shown->gate, state, __ATOMIC_SEQ_CST);
	/* After the gate when it closes: whoever sees the summary finds the reason. */
	if (was_open != is_open)
		__atomic_fetch_add(&t->shown->not_open, is_open ? -1u : 1u, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&t->shown->epoch, 1, __ATOMIC_SEQ_CST);
	wake(&shown->gate);
	wake(&t->shown->not_open);
	list_for_each(link, &t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);

		if (g->joined)
			guest_tell_gate(g, device);
	}
}

void tenant_gate(struct tenant *t, uint32_t device, bool open, const struct gate_wait *wait)
{
	uint32_t now = t->shown->device[device].gate;

	answer_wait(device_of(t, device), false);
	device_of(t, device)->waiting = *wait;
	if (open && now != WIRE_GATE_OPEN)
		change_gate(t, device, WIRE_GATE_OPEN);
	if (!open && now == WIRE_GATE_OPEN)
		change_gate(t, device, WIRE_GATE_CLOSING);
	if (open)
		answer_wait(device_of(t, device), true);
	else
		tenant_gate_check(t, device);
}

void tenant_forget_peer(struct tenant *t, const struct peer *peer)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		if (peer && t->device[i].waiting.peer == peer)
			t->device[i].waiting = (struct gate_wait){NULL, 0};
	}
}
