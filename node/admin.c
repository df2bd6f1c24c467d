/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "node/daemon.h"
#include "node/keeper.h"

enum {
	ADMIN_KEEPS = 64,     /* tenants that one connection keeps alive */
	ADMIN_SESSIONS = 512, /* connections */
};

struct admin {
	struct peer peer;
	struct list link; /* of the daemon */
	struct daemon *daemon;
	pid_t pid;
	uid_t uid;
	bool greeted;
	uint32_t kept[ADMIN_KEEPS], keeps;
	bool listing; /* a LIST is to be answered when its figures are measured */
	uint32_t list_id, list_tenant;
	unsigned list_rounds; /* measurements that it still waits for at most */
};

static struct admin *admin_of(struct peer *peer)
{
	return container_of(peer, struct admin, peer);
}

static void leave(struct admin *a)
{
	struct daemon *d = a->daemon;

	if (!list_linked(&a->link))
		return;
	list_remove(&a->link);
	d->admin_count--;
	reserve_drop(d, a);
	peer_close(&a->peer);
	list_for_each(link, &d->tenants)
		tenant_forget_peer(list_entry(link, struct tenant, link), &a->peer);
	for (uint32_t i = 0; i < a->keeps; i++) {
		struct tenant *t = tenant_find(d, a->kept[i]);

		if (!t)
			continue;
		t->keepers--;
		tenant_maybe_end(t);
	}
	daemon_maybe_end(d);
}

static void on_gone(struct peer *peer, const char *reason)
{
	struct admin *a = admin_of(peer);

	if (reason && daemon_may_complain(a->daemon))
		log_warning("admin.closed", "pid=%d reason=%s", (int)a->pid, log_text(reason).text);
	leave(a);
}

static void on_freed(struct peer *peer)
{
	free(admin_of(peer));
}

static void on_unknown(struct peer *peer, uint32_t id, uint32_t code)
{
	peer_refuse(peer, id, WIRE_REFUSED_UNKNOWN, "meted does not know message %u", code);
}

static void on_hello(struct admin *a, uint32_t id, const struct wire_admin_hello *hello)
{
	struct wire_message answer = {.code = WIRE_admin_welcome, .id = id};

	if (hello->major != WIRE_MAJOR) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_VERSION,
			    "this meted speaks version %d of the protocol, you speak version %u",
			    WIRE_MAJOR, hello->major);
		leave(a);
		return;
	}
	a->greeted = true;
	answer.admin_welcome.major = WIRE_MAJOR;
	answer.admin_welcome.minor = WIRE_MINOR;
	answer.admin_welcome.pid = (uint32_t)getpid();
	answer.admin_welcome.system = (uint32_t)a->daemon->options.system;
	wire_set_text(&answer.admin_welcome.version, METE_VERSION);
	peer_send(&a->peer, &answer);
}

/* The device with the least of it promised; ties go to the lower index. */
static uint32_t emptiest(const struct daemon *d)
{
	uint32_t best = 0;
	int64_t best_left = INT64_MIN;

	for (uint32_t i = 0; i < d->devices; i++) {
		int64_t left =
			(int64_t)(d->device[i].info->total_bytes - d->device[i].promised_bytes);

		if (left > best_left) {
			best = i;
			best_left = left;
		}
	}
	return best;
}

/* "", or UUIDs or indices with commas between them. */
static int pick_devices(struct daemon *d, const char *text, struct tenant_spec *spec,
			struct fault *why)
{
	char rest[WIRE_TEXT_MAX + 1], *at = rest, *name;

	if (!d->devices)
		return fault_set(why, -ENODEV, "this machine has no device");
	if (!*text) {
		spec->devices = 1;
		spec->device[0] = emptiest(d);
		return 0;
	}
	snprintf(rest, sizeof(rest), "%s", text);
	while ((name = strsep(&at, ","))) {
		uint32_t index;

		if (daemon_find_device(d, name, &index) < 0)
			return fault_set(
				why, -ENODEV,
				"device: there is no '%.60s'; accepted: a UUID or an index "
				"below %u (nvidia-smi -L lists them)",
				name, d->devices);
		for (uint32_t i = 0; i < spec->devices; i++) {
			if (spec->device[i] == index)
				return fault_set(why, -EINVAL, "device: '%.60s' is named twice",
						 name);
		}
		if (spec->devices == WIRE_DEVICES)
			return fault_set(why, -EINVAL, "device: more than %d devices",
					 WIRE_DEVICES);
		spec->device[spec->devices++] = index;
	}
	return 0;
}

/* The place of a key in the share's table. */
static uint32_t key_index(const char *key)
{
	uint32_t i = 0;

	while (share_key(i) && strcmp(share_key(i), key) != 0)
		i++;
	return i;
}

static int keep(struct admin *a, struct tenant *t, struct fault *why)
{
	for (uint32_t i = 0; i < a->keeps; i++) {
		if (a->kept[i] == t->id)
			return 0;
	}
	if (a->keeps == ADMIN_KEEPS)
		return fault_set(why, -ENOSPC, "one connection keeps no more than %d tenants",
				 ADMIN_KEEPS);
	a->kept[a->keeps++] = t->id;
	t->keepers++;
	t->kept = true;
	return 0;
}

static void read_share(const struct wire_tenant_new *said, struct tenant_spec *ret_spec)
{
	const struct {
		const char *key;
		const wire_text *text;
	} fields[] = {
		{"memory", &said->memory},
		{"wait", &said->wait},
		{"on_daemon_loss", &said->on_daemon_loss},
		{"mode", &said->mode},
		{"weight", &said->weight},
		{"guarantee", &said->guarantee},
		{"cap", &said->cap},
		{"class", &said->class},
		{"escalate", &said->escalate},
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		ret_spec->texts[key_index(fields[i].key)] = fields[i].text->text;
}

static void on_tenant_new(struct admin *a, uint32_t id, const struct wire_tenant_new *said)
{
	struct wire_message answer = {.code = WIRE_tenant_made, .id = id};
	struct tenant_spec spec = {.owner = a->uid, .name = said->name.text};
	struct daemon *d = a->daemon;
	struct tenant *t = NULL;
	struct fault why;
	int r;

	read_share(said, &spec);
	r = pick_devices(d, said->device.text, &spec, &why);
	if (r == 0 && a->keeps == ADMIN_KEEPS)
		r = fault_set(&why, -ENOSPC, "one connection keeps no more than %d tenants",
			      ADMIN_KEEPS);
	if (r == 0)
		r = tenant_make(d, &spec, &t, &why);
	if (r < 0 || !t) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE, "%s", why.text);
		return;
	}
	best_effort(keep(a, t, &why));
	restore_tenant(t);
	answer.tenant_made.tenant = t->id;
	wire_set_text(&answer.tenant_made.socket, t->socket);
	wire_set_text(&answer.tenant_made.uuid, d->device[spec.device[0]].info->uuid_text);
	peer_send(&a->peer, &answer);
}

/* By id, or, where that is 0, by name; NULL, and the peer was told. */
static struct tenant *named(struct admin *a, uint32_t id, uint32_t tenant, const char *name)
{
	struct tenant *t =
		tenant ? tenant_find(a->daemon, tenant) : tenant_find_by_name(a->daemon, name);

	if (t)
		return t;
	if (tenant)
		peer_refuse(&a->peer, id, WIRE_REFUSED_UNKNOWN, "there is no tenant %u", tenant);
	else
		peer_refuse(&a->peer, id, WIRE_REFUSED_UNKNOWN, "there is no tenant '%.60s'", name);
	return NULL;
}

static void on_tenant_set(struct admin *a, uint32_t id, const struct wire_tenant_set *said)
{
	struct tenant *t = named(a, id, said->tenant, said->name.text);
	struct fault why;

	if (!t)
		return;
	if (tenant_set(t, said->key.text, said->value.text, &why) < 0)
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE, "%s", why.text);
	else
		peer_done(&a->peer, id, 0);
}

static void on_tenant_keep(struct admin *a, uint32_t id, const struct wire_tenant_keep *said)
{
	struct tenant *t = named(a, id, said->tenant, "");
	struct fault why;

	if (!t)
		return;
	if (keep(a, t, &why) < 0 || (said->pid && keeper_add(t, said->pid, &why) < 0))
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE, "%s", why.text);
	else
		peer_done(&a->peer, id, 0);
}

static void on_gate_set(struct admin *a, uint32_t id, const struct wire_gate_set *said)
{
	struct tenant *t = named(a, id, said->tenant, "");
	struct gate_wait wait = {&a->peer, id};

	if (!t)
		return;
	if (said->device >= t->devices)
		peer_refuse(&a->peer, id, WIRE_REFUSED_UNKNOWN, "device %u: this tenant has %u",
			    said->device, t->devices);
	else if (said->state != WIRE_GATE_OPEN && said->state != WIRE_GATE_CLOSED)
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE,
			    "state %u: accepted: 0 (open) and 2 (closed)", said->state);
	else
		tenant_gate(t, said->device, said->state == WIRE_GATE_OPEN, &wait);
}

struct listing {
	struct admin *admin;
	uint32_t id;
	uint64_t rows;
};

static void send_row(struct listing *to, struct wire_message *row)
{
	row->id = to->id;
	to->rows++;
	peer_send(&to->admin->peer, row);
}

static void list_devices(struct listing *to)
{
	struct daemon *d = to->admin->daemon;

	for (uint32_t i = 0; i < d->devices; i++) {
		struct wire_message message = {.code = WIRE_device_row};
		struct wire_device_row *row = &message.device_row;
		const struct device *device = &d->device[i];
		struct ledger_sums sums;

		ledger_device_sums(d->ledger, i, &sums);
		row->index = i;
		memcpy(row->uuid.byte, device->info->uuid, sizeof(row->uuid.byte));
		wire_set_text(&row->model, device->info->model);
		wire_set_text(&row->name, device->info->uuid_text);
		row->capacity = device->info->total_bytes;
		row->reserve = device->reserve_bytes;
		row->allocated = sums.allocated;
		row->resident = sums.allocated - sums.evicted;
		/* What it counts for: see law 10 of core/ledger.h. */
		row->residual = sums.booked + sums.evicted - sums.granted;
		row->credit = sums.granted - sums.allocated;
		send_row(to, &message);
	}
}

static uint64_t unknown_functions(const struct tenant *t)
{
	uint64_t sum = t->unknown_functions;

	list_for_each(link, (struct list *)&t->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		sum += __atomic_load_n(&g->own->unknown_functions, __ATOMIC_RELAXED);
	}
	return sum;
}

static void list_guests(struct listing *to, const struct tenant *t, uint32_t device)
{
	list_for_each(link, (struct list *)&t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);
		struct wire_message message = {.code = WIRE_guest_row};
		struct wire_guest_row *row = &message.guest_row;
		struct ledger_sums sums;

		ledger_holder_sums(g->device[device].holder, &sums);
		row->tenant = t->id;
		row->guest = g->id;
		row->device = t->device[device].index;
		row->pid = (uint32_t)g->pid;
		wire_set_text(&row->program, g->program);
		row->allocated = sums.allocated;
		row->residual = sums.residual;
		row->credit = sums.granted - sums.allocated;
		send_row(to, &message);
	}
}

static void list_tenant(struct listing *to, struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		struct wire_message message = {.code = WIRE_tenant_row};
		struct wire_tenant_row *row = &message.tenant_row;
		struct ledger_sums sums;

		ledger_account_sums(t->device[i].account, &sums);
		row->tenant = t->id;
		wire_set_text(&row->name, t->name);
		row->device = t->device[i].index;
		row->guests = sums.holders;
		row->waiting = sums.waiting;
		row->limit = sums.limit;
		row->allocated = sums.allocated;
		row->resident = sums.allocated - sums.evicted;
		/* What it counts for: see law 10 of core/ledger.h. */
		row->residual = sums.booked + sums.evicted - sums.granted;
		row->credit = sums.granted - sums.allocated;
		row->peak = sums.peak;
		row->refusals = sums.refused;
		row->gate = t->shown->device[i].gate;
		row->unknown_functions = unknown_functions(t);
		row->joins = t->joins;
		row->coupled = t->device[i].coupled;
		schedule_row(&t->device[i], row);
		send_row(to, &message);
		list_guests(to, t, i);
	}
}

static void answer_list(struct admin *a)
{
	struct listing to = {.admin = a, .id = a->list_id};
	struct wire_message end = {.code = WIRE_end, .id = a->list_id};
	struct tenant *only = NULL;

	a->listing = false;
	if (a->list_tenant) {
		only = named(a, to.id, a->list_tenant, "");
		if (!only)
			return;
	}
	book_refresh_all(a->daemon);
	if (!only)
		list_devices(&to);
	list_for_each(link, &a->daemon->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (!only || t == only)
			list_tenant(&to, t);
	}
	end.end.rows = to.rows;
	peer_send(&a->peer, &end);
}

static void on_list(struct admin *a, uint32_t id, const struct wire_list *said)
{
	if (a->listing) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_BAD, "a list is under way");
		return;
	}
	a->listing = true;
	a->list_id = id;
	a->list_tenant = said->tenant;
	a->list_rounds = RESIDUAL_ROUNDS;
	measure_all(a->daemon);
	if (!measure_under_way(a->daemon))
		answer_list(a);
}

static struct admin *find_listing(struct daemon *d, bool all)
{
	list_for_each(link, &d->admins)
	{
		struct admin *a = list_entry(link, struct admin, link);

		if (a->listing && (all || a->list_rounds == 0))
			return a;
	}
	return NULL;
}

void admin_measured(struct daemon *d)
{
	struct admin *a;

	list_for_each(link, &d->admins)
	{
		a = list_entry(link, struct admin, link);
		a->list_rounds -= a->list_rounds > 0;
	}
	while ((a = find_listing(d, !measure_under_way(d))) != NULL)
		answer_list(a);
}

static void on_device_reserve(struct admin *a, uint32_t id, const struct wire_device_reserve *said)
{
	uint32_t device;
	struct fault why;
	int r = daemon_find_device(a->daemon, said->device.text, &device);

	if (r < 0)
		r = fault_set(&why, r, "there is no device '%.60s'", said->device.text);
	else
		r = reserve_take(a->daemon, device, a, a->pid, said->hold, &why);
	if (r < 0)
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE, "%s", why.text);
	else
		peer_done(&a->peer, id, 0);
}

static void on_shutdown(struct admin *a, uint32_t id, const struct wire_shutdown *said)
{
	struct daemon *d = a->daemon;

	if (d->guest_count && !said->force) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_BAD,
			    "%u processes are connected: they go on without meted if you insist",
			    d->guest_count);
		return;
	}
	peer_done(&a->peer, id, 0);
	log_info("daemon.shutdown", "pid=%d", (int)a->pid);
	loop_stop(&d->loop);
}

static void on_message(struct peer *peer, const struct wire_message *m)
{
	struct admin *a = admin_of(peer);

	if (!a->greeted && m->code != WIRE_admin_hello) {
		peer_refuse(peer, m->id, WIRE_REFUSED_BAD, "ADMIN_HELLO comes first");
		leave(a);
		return;
	}
	switch (m->code) {
	case WIRE_admin_hello:
		on_hello(a, m->id, &m->admin_hello);
		break;
	case WIRE_tenant_new:
		on_tenant_new(a, m->id, &m->tenant_new);
		break;
	case WIRE_tenant_set:
		on_tenant_set(a, m->id, &m->tenant_set);
		break;
	case WIRE_tenant_keep:
		on_tenant_keep(a, m->id, &m->tenant_keep);
		break;
	case WIRE_list:
		on_list(a, m->id, &m->list);
		break;
	case WIRE_gate_set:
		on_gate_set(a, m->id, &m->gate_set);
		break;
	case WIRE_device_reserve:
		on_device_reserve(a, m->id, &m->device_reserve);
		break;
	case WIRE_shutdown:
		on_shutdown(a, m->id, &m->shutdown);
		break;
	default:
		peer_refuse(peer, m->id, WIRE_REFUSED_BAD, "%s is not said here",
			    wire_name(m->code));
		break;
	}
}

void admin_accept(struct daemon *d)
{
	static const struct peer_class class = {on_message, on_unknown, on_gone, on_freed};
	int fd = daemon_accept(d, d->admin_fd, INT_MAX);
	struct peer_identity who;
	struct admin *a;

	if (fd == -EMFILE) {
		loop_rewatch(&d->admin_listener, 0);
		loop_arm(&d->admin_pause, DAEMON_PAUSE_MS * 1000000ull);
	}
	if (fd < 0)
		return;
	/* The socket's mode says the same; a descriptor may have been passed on, though. */
	if (peer_identify(fd, &who) < 0) {
		close(fd);
		return;
	}
	close(who.pidfd);
	a = who.uid == geteuid() || who.uid == 0 ? calloc(1, sizeof(*a)) : NULL;
	if (!a || d->admin_count == ADMIN_SESSIONS) {
		if (daemon_may_complain(d))
			log_warning("admin.turned_away", "pid=%d uid=%u", (int)who.pid,
				    (unsigned)who.uid);
		free(a);
		close(fd);
		return;
	}
	a->daemon = d;
	a->pid = who.pid;
	a->uid = who.uid;
	if (peer_init(&a->peer, &d->loop, &d->admin_flow, fd, &class) < 0) {
		free(a);
		return;
	}
	list_append(&d->admins, &a->link);
	d->admin_count++;
	if (!d->restoring)
		loop_disarm(&d->grace);
}

void admin_close_all(struct daemon *d)
{
	list_for_each(link, &d->admins)
	{
		struct admin *a = list_entry(link, struct admin, link);

		list_remove(&a->link);
		peer_close(&a->peer);
	}
}
