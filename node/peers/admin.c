/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/admin.h"

#include <string.h>

#include "node/daemon.h"
#include "node/devices/cordon.h"
#include "node/devices/mark.h"
#include "node/devices/reserve.h"
#include "node/memory/measure.h"
#include "node/memory/outside.h"
#include "node/move/move_suspend.h"
#include "node/peers/admin_cordon.h"
#include "node/peers/admin_events.h"
#include "node/peers/admin_list.h"
#include "node/peers/admin_make.h"
#include "node/peers/admin_named.h"
#include "node/peers/admin_types.h"
#include "node/peers/peer.h"
#include "node/peers/listing.h"
#include "node/process.h"
#include "node/tenants/change.h"
#include "node/tenants/keeper.h"
#include "node/tenants/tenant.h"
#include "node/tenants/tenant_find.h"
#include "node/time/gate.h"
#include "node/upcalls.h"
#include "node/users/policy.h"
#include "node/users/promise.h"
#include "node/users/terms.h"
#include "node/users/user.h"
#include "node/users/user_name.h"

static struct admin *admin_of(struct peer *peer)
{
	return container_of(peer, struct admin, peer);
}

void admin_leave(struct admin *a)
{
	struct daemon *d = a->daemon;

	if (!list_linked(&a->link))
		return;
	list_remove(&a->link);
	admin_stop_listing(a);
	admin_stop_awaiting(a);
	if (a->user)
		a->user->admins--;
	else
		d->admins.count--;
	reserve_drop(d, a);
	peer_close(&a->peer);
	list_for_each(link, &d->tenants.all)
		tenant_forget_peer(list_entry(link, struct tenant, link), &a->peer);
	move_suspend_forget(d, &a->peer);
	for (uint32_t i = 0; i < a->keeps; i++) {
		struct tenant *t = tenant_find(d, a->kept[i]);

		if (!t)
			continue;
		t->keepers--;
		tenant_maybe_end(t);
	}
	user_maybe_end(take(a->user));
	daemon_maybe_end(d);
}

static void on_gone(struct peer *peer, const char *reason)
{
	struct admin *a = admin_of(peer);

	if (reason && daemon_may_complain(a->daemon))
		log_warning("admin.closed", "pid=%d reason=%s", (int)a->pid, log_text(reason).text);
	admin_leave(a);
}

static void on_freed(struct peer *peer)
{
	struct admin *a = admin_of(peer);

	free(a->kept);
	free(a);
}

static void on_unknown(struct peer *peer, uint32_t id, uint32_t code)
{
	peer_refuse(peer, id, WIRE_REFUSED_UNKNOWN, "meted does not know message %u", code);
}

static void welcome(struct admin *a)
{
	struct wire_message answer = {.code = WIRE_admin_welcome, .id = a->hello_id};

	a->greeting = false;
	a->greeted = true;
	listing_welcome(a->daemon, &answer.admin_welcome);
	peer_send(&a->peer, &answer);
}

/* The answer tells whether the driver answers. It waits for that at most until the measurement is
 * late. */
static void on_hello(struct admin *a, uint32_t id, const struct wire_admin_hello *hello)
{
	if (hello->major != WIRE_MAJOR) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_VERSION,
			    "this meted speaks protocol version %d, you speak version %u",
			    WIRE_MAJOR, hello->major);
		admin_leave(a);
		return;
	}
	if (a->greeting) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_BAD, "ADMIN_HELLO is being answered");
		return;
	}
	mark_again(a->daemon);
	a->greeting = true;
	a->hello_id = id;
	a->minor = hello->minor;
	a->hello_look = outside_fresh(a->daemon);
	if (!measure_under_way(a->daemon) || a->daemon->measure.ended >= a->hello_look)
		welcome(a);
}

int admin_make_place(struct admin *a, struct fault *why)
{
	uint32_t *kept;

	if (a->keeps == ADMIN_KEEPS)
		return fault_set(why, -ENOSPC, "one connection may keep at most %d tenants",
				 ADMIN_KEEPS);
	kept = reallocarray(a->kept, a->keeps + 1, sizeof(*kept));
	if (!kept)
		return fault_set(why, -ENOMEM, "out of memory");
	a->kept = kept;
	return 0;
}

int admin_keep(struct admin *a, struct tenant *t, struct fault *why)
{
	int r;

	for (uint32_t i = 0; i < a->keeps; i++) {
		if (a->kept[i] == t->id)
			return 0;
	}
	r = admin_make_place(a, why);
	if (r < 0)
		return r;
	a->kept[a->keeps++] = t->id;
	tenant_keep(t);
	return 0;
}

/* The fields of a request, whose texts are cut apart in place. */
static int read_changes(struct wire_tenant_set *said, struct change *ret_changes,
			uint32_t *ret_count, struct fault *why)
{
	char *rest = said->more.text, *field;
	uint32_t n = 0;

	ret_changes[n++] = (struct change){said->key.text, said->value.text};
	while ((field = strsep(&rest, "\n")) != NULL) {
		char *value = strchr(field, '=');

		if (!*field)
			continue;
		if (!value || n == SHARE_FIELDS)
			return fault_set(why, -EINVAL, "'%.60s': %s", field,
					 value ? "more fields than a share has"
					       : "expected KEY=VALUE");
		*value++ = '\0';
		ret_changes[n++] = (struct change){field, value};
	}
	*ret_count = n;
	return 0;
}

static void on_tenant_set(struct admin *a, uint32_t id, const struct wire_tenant_set *said)
{
	struct tenant *t = admin_own(a, id, said->tenant, said->name.text, false);
	struct change changes[SHARE_FIELDS];
	struct wire_tenant_set own_copy = *said;
	struct share share;
	struct fault why;
	uint32_t count = 0;

	if (!t)
		return;
	if (read_changes(&own_copy, changes, &count, &why) < 0 ||
	    change_share(t, changes, count, &share, &why) < 0 ||
	    promise_change(t, &share, &why) < 0 ||
	    change_tenant(t, a->user, changes, count, &why) < 0)
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE, "%s", why.text);
	else
		peer_done(&a->peer, id, 0);
}

static void on_tenant_suspend(struct admin *a, uint32_t id, const struct wire_tenant_suspend *said)
{
	struct tenant *t = admin_own(a, id, said->tenant, said->name.text, false);
	struct wire_message answer = {.code = WIRE_done, .id = id};
	struct move_sent sent;
	struct fault why;
	bool was;

	if (!t)
		return;
	if (move_suspend(t, said->suspends != 0, &sent, &was, &why) < 0) {
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE, "%s", why.text);
		return;
	}
	if (said->suspends && said->wait) {
		move_suspend_wait(t, &a->peer, id, said->wait);
		return;
	}
	answer.done = (struct wire_done){.value = said->suspends ? sent.stays_bytes : !was,
					 .moves = sent.moves_bytes,
					 .leaving = sent.leaving_bytes};
	peer_send(&a->peer, &answer);
}

static void on_tenant_keep(struct admin *a, uint32_t id, const struct wire_tenant_keep *said)
{
	struct tenant *t = admin_own(a, id, said->tenant, "", true);
	struct fault why;

	if (!t)
		return;
	if (a->user && said->pid && process_user((pid_t)said->pid) != (int64_t)a->uid)
		peer_refuse(&a->peer, id, WIRE_REFUSED_IDENTITY,
			    "process %u does not belong to user %u and cannot keep its tenants",
			    said->pid, (unsigned)a->uid);
	else if (admin_keep(a, t, &why) < 0 || (said->pid && keeper_add(t, said->pid, &why) < 0))
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE, "%s", why.text);
	else
		peer_done(&a->peer, id, 0);
}

static void on_gate_set(struct admin *a, uint32_t id, const struct wire_gate_set *said)
{
	struct gate_wait wait = {&a->peer, id};
	struct tenant *t;

	if (!admin_is_master(a, id, "test a gate"))
		return;
	t = admin_named(a, id, said->tenant, "");
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

void admin_measured(struct daemon *d)
{
	list_for_each(link, &d->admins.all)
	{
		struct admin *a = list_entry(link, struct admin, link);

		if (a->greeting && (!measure_under_way(d) || d->measure.ended >= a->hello_look))
			welcome(a);
	}
	admin_list_measured(d);
}

static void on_device_reserve(struct admin *a, uint32_t id, const struct wire_device_reserve *said)
{
	uint32_t device;
	struct fault why;
	int r = daemon_find_device(a->daemon, said->device.text, &device);

	reserve_release_ended(a->daemon);
	if (r < 0)
		r = fault_set(&why, r, "there is no device '%.60s'", said->device.text);
	else
		r = a->user && !reserve_is_of(a->daemon, device, a) ? terms_reserve(a->user, &why)
								    : 0;
	if (r == 0)
		r = cordon_check(a->daemon, &device, 1, &why);
	if (r == 0)
		r = reserve_take(a->daemon, device, &(struct reserve_asker){a, a->pid, a->uid},
				 said->hold, &why);
	if (r < 0)
		peer_refuse(&a->peer, id, WIRE_REFUSED_VALUE, "%s", why.text);
	else
		peer_done(&a->peer, id, 0);
}

static void on_shutdown(struct admin *a, uint32_t id, const struct wire_shutdown *said)
{
	struct daemon *d = a->daemon;

	if (!admin_is_master(a, id, "end the system's meted"))
		return;
	if (d->tenants.guest_count && !said->force) {
		peer_refuse(
			&a->peer, id, WIRE_REFUSED_BAD,
			"%u processes are connected: they keep running without meted if you insist",
			d->tenants.guest_count);
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
		admin_leave(a);
		return;
	}
	switch (m->code) {
	case WIRE_admin_hello:
		on_hello(a, m->id, &m->admin_hello);
		break;
	case WIRE_tenant_new:
		admin_make(a, m->id, &m->tenant_new);
		break;
	case WIRE_tenant_set:
		on_tenant_set(a, m->id, &m->tenant_set);
		break;
	case WIRE_tenant_suspend:
		on_tenant_suspend(a, m->id, &m->tenant_suspend);
		break;
	case WIRE_tenant_keep:
		on_tenant_keep(a, m->id, &m->tenant_keep);
		break;
	case WIRE_list:
		admin_list(a, m->id, &m->list);
		break;
	case WIRE_gate_set:
		on_gate_set(a, m->id, &m->gate_set);
		break;
	case WIRE_device_reserve:
		on_device_reserve(a, m->id, &m->device_reserve);
		break;
	case WIRE_device_cordon:
		admin_cordon(a, m->id, &m->device_cordon);
		break;
	case WIRE_tenant_end:
		admin_end(a, m->id, &m->tenant_end);
		break;
	case WIRE_shutdown:
		on_shutdown(a, m->id, &m->shutdown);
		break;
	default:
		if (!admin_events_asked(a, m))
			peer_refuse(peer, m->id, WIRE_REFUSED_BAD, "%s is not accepted here",
				    wire_name(m->code));
		break;
	}
}

const struct peer_class admin_class = {on_message, on_unknown, on_gone, on_freed};

void admin_close_all(struct daemon *d)
{
	list_for_each(link, &d->admins.all)
	{
		struct admin *a = list_entry(link, struct admin, link);

		list_remove(&a->link);
		peer_close(&a->peer);
	}
}
