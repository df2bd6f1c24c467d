/* SPDX-License-Identifier: Apache-2.0 */
#include "node/shown.h"

#include <string.h>

#include "node/events.h"
#include "node/kubernetes.h"
#include "node/library.h"
#include "node/memory/measure.h"
#include "node/memory/outside.h"
#include "node/devices/boards.h"
#include "node/devices/nvml.h"
#include "node/peers/listing.h"
#include "node/time/launches.h"
#include "node/users/user_name.h"
#include "page/host.h"

struct shown {
	const struct page_entry *entry;
	struct page_server *page;
	struct page_host host;
	struct launches launches; /* for the metrics */
};

static void rows(struct daemon *d, void (*row)(void *owner, const struct wire_message *row),
		 void *owner)
{
	listing_all(d, &(struct listing){.row = row, .owner = owner});
}

static void events(struct daemon *d, uint64_t after,
		   void (*tell)(void *owner, const struct wire_event_row *event), void *owner)
{
	const struct event *event;
	struct wire_event_row row;

	for (; (event = events_after(d, after)) != NULL; after = event->number) {
		events_row(event, &row);
		tell(owner, &row);
	}
}

static void freshen(struct daemon *d)
{
	outside_want(d);
	measure_all(d);
}

static void tell(struct daemon *d, struct wire_admin_welcome *ret_said)
{
	listing_welcome(d, ret_said);
}

static void user(uid_t uid, char ret_name[PAGE_USER_MAX])
{
	snprintf(ret_name, PAGE_USER_MAX, "%s", user_name(uid).text);
}

static void device(struct daemon *d, uint32_t index, int *minor, int *gpu_instance)
{
	if (index >= d->devices)
		return;
	*minor = d->device[index].info->minor;
	*gpu_instance = d->device[index].info->gpu_instance;
}

/* "unix:/path" is how curl and systemd write it. */
static const char *address_of(const char *text)
{
	return text && strncmp(text, "unix:/", 6) == 0 ? text + 5 : text;
}

static bool is_asked_for(const struct options *options)
{
	return options->page || options->page_token || options->page_open ||
	       options->page_kubernetes_ns || options->metrics || options->tls_cert ||
	       options->tls_key;
}

/* What the library may ask of us, and what the options tell it. */
static void fill_host(struct daemon *d, struct page_host *host)
{
	const struct options *options = &d->options;

	*host = (struct page_host){
		.version = PAGE_VERSION,
		.loop = &d->loop,
		.daemon = d,
		.owner = geteuid(),
		.system = options->system,
		.page = address_of(options->page),
		.metrics = address_of(options->metrics),
		.token = options->page_token,
		.open = options->page_open,
		.certificate = options->tls_cert,
		.key = options->tls_key,
		.rows = rows,
		.events = events,
		.freshen = freshen,
		.tell = tell,
		.user = user,
		.device = device,
		.want_boards = boards_want,
		.board = boards_of,
		.boards_since_ns = boards_since_ns,
		.believed_ns = options->page_kubernetes_ns,
		.audience = options->page_audience,
		.who = kubernetes_who,
		.may = kubernetes_may,
		.forget = kubernetes_forget,
	};
}

int shown_open(struct daemon *d, struct shown **ret_shown, struct fault *why)
{
	static const char *const places[] = {"../page/libmete-page.so",
					     "../lib/mete/libmete-page.so", NULL};
	const void *entry;
	struct shown *s;
	int r;

	if (!is_asked_for(&d->options))
		return 0;
	r = library_load(places, "mete_page", PAGE_VERSION, &entry, why);
	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return fault_set(why, -ENOMEM, "out of memory");
	s->entry = entry;
	fill_host(d, &s->host);
	*ret_shown = s;
	if (d->options.metrics && launches_open(&s->launches, d) < 0)
		log_warning("launches.unwatched", "reason=\"no timer\"");
	return s->entry->open(&s->host, &s->page, why);
}

void shown_close(struct shown *shown)
{
	if (!shown)
		return;
	shown->entry->close(take(shown->page));
	launches_close(&shown->launches);
}

void shown_free(struct shown *shown)
{
	free(shown);
}
