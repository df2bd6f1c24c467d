/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/listing.h"

#include "node/memory/book.h"
#include "node/memory/outside.h"
#include "node/peers/rows.h"
#include "node/tenants/guest.h"

static void list_devices(struct daemon *d, const struct listing *to)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		struct wire_message message = {.code = WIRE_device_row};

		if (!device_is_shown(&d->device[i]))
			continue;
		rows_device(d, i, &message.device_row);
		to->row(to->owner, &message);
	}
}

static void list_guests(const struct listing *to, const struct tenant *t, uint32_t device)
{
	list_for_each(link, (struct list *)&t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);
		struct wire_message message = {.code = WIRE_guest_row};

		rows_guest(g, device, &message.guest_row);
		to->row(to->owner, &message);
	}
}

static void list_tenant(const struct listing *to, struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		struct wire_message message = {.code = WIRE_tenant_row};

		rows_tenant(t, i, &message.tenant_row);
		to->row(to->owner, &message);
		list_guests(to, t, i);
	}
}

static void list_outside(struct daemon *d, const struct listing *to)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		for (uint32_t n = 0;; n++) {
			struct wire_message message = {.code = WIRE_outside_row};

			if (!outside_row(d, i, n, &message.outside_row))
				break;
			to->row(to->owner, &message);
		}
	}
}

void listing_one(struct tenant *t, const struct listing *to)
{
	book_refresh_all(t->daemon);
	list_tenant(to, t);
}

void listing_tenants(struct daemon *d, const struct listing *to)
{
	book_refresh_all(d);
	list_devices(d, to);
	list_for_each(link, &d->tenants.all) list_tenant(to, list_entry(link, struct tenant, link));
}

void listing_all(struct daemon *d, const struct listing *to)
{
	listing_tenants(d, to);
	list_outside(d, to);
}

void listing_welcome(const struct daemon *d, struct wire_admin_welcome *ret_said)
{
	*ret_said = (struct wire_admin_welcome){
		.major = WIRE_MAJOR,
		.minor = WIRE_MINOR,
		.pid = (uint32_t)getpid(),
		.system = (uint32_t)d->options.system,
	};
	wire_set_text(&ret_said->version, METE_VERSION);
	rows_trouble(d, &ret_said->trouble);
}
