/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/sums/seats.h"

#include <string.h>

#include "plugin/nodes.h"
#include "plugin/sums/say.h"
#include "plugin/sums/seats_inside.h"

static struct seat *find(const struct seats *seats, const char *uid)
{
	list_for_each(link, (struct list *)&seats->all)
	{
		struct seat *seat = list_entry(link, struct seat, link);

		if (strcmp(seat->uid, uid) == 0)
			return seat;
	}
	return NULL;
}

int seats_place(const struct seat *seat, const char *container)
{
	for (uint32_t i = 0; i < seat->is.containers; i++)
		if (strcmp(seat->name[i], container) == 0)
			return (int)i;
	return -1;
}

/* The seat, and the place in it, of a container that is bound; NULL: its pod has no seat. */
static struct seat *seat_of(const struct seats *seats, const struct binding *b, int *ret_place)
{
	list_for_each(link, (struct list *)&seats->all)
	{
		struct seat *seat = list_entry(link, struct seat, link);

		if (!seats_are_of(b, seat))
			continue;
		*ret_place = seats_place(seat, b->container);
		if (*ret_place >= 0 && strcmp(seat->key[*ret_place], b->key) == 0)
			return seat;
	}
	return NULL;
}

bool seats_cover(const struct seat *seat, const struct binding *b)
{
	int place = seats_place(seat, b->container);

	return place >= 0 && strcmp(seat->key[place], b->key) == 0 && seat->is.seated;
}

static bool is_well(const struct plugin *p, const struct binding *b)
{
	return b->devices && !b->missings && !b->absent &&
	       binding_store_find((struct binding_store *)&p->bindings, b->key) == b;
}

static void take_devices(struct binding *b, const struct seating_container *it)
{
	b->devices = it->gpus;
	for (uint32_t i = 0; i < it->gpus; i++)
		b->device[i] = it->device[i];
	b->counted = true;
	b->counted_bytes = it->memory_bytes;
	b->counted_milli = it->milli;
}

/* Others of its pod have begun, and it has not: a GPU of it that is out of order by now is not
 * waited for. */
static bool is_stranded(const struct plugin *p, const struct seat *seat, const char *container)
{
	int place = seats_place(seat, container);
	const struct seating_container *it = &seat->is.container[place < 0 ? 0 : place];
	bool broken = false;

	if (!seat->is.seated || place < 0 || *seat->key[place])
		return false;
	for (uint32_t i = 0; i < it->gpus; i++)
		broken |= !p->offer[it->device[i]].healthy || p->host->device[it->device[i]].gone;
	return broken;
}

/* The pod's seat, with an answer: it has one, or why not. */
static int settled(struct plugin *p, const struct pod *pod, const char *container,
		   struct seat **ret_seat, struct fault *why)
{
	struct seat *seat = find(p->seats, pod->uid);
	int r = 0;

	/* The containers that have begun are then counted by their bindings. */
	if (seat && is_stranded(p, seat, container)) {
		seats_free(seat);
		seat = NULL;
	}
	if (!seat)
		r = seats_make(p, pod, container, &seat, why);
	if (r == 0 && !seat->is.seated)
		r = seats_settle(p, why);
	*ret_seat = seat;
	return r < 0 ? r : 0;
}

int seats_take(struct plugin *p, struct binding *b, const struct pod *pod, struct fault *why)
{
	const struct binding *was = entitled_former(p, b);
	struct seat *seat;
	int place, r;

	b->parts = 1;
	b->devices = 0;
	/* It is started again: also one that was bound when slots were counted. */
	if (was && is_well(p, was)) {
		b->devices = was->devices;
		memcpy(b->device, was->device, sizeof(b->device));
		b->counted = was->counted;
		b->counted_bytes = was->counted_bytes;
		b->counted_milli = was->counted_milli;
		return 0;
	}
	if (!pod)
		return fault_set(why, -ENOENT, "the GPU amounts of the pod are not known");
	r = settled(p, pod, b->container, &seat, why);
	if (r < 0)
		return r;
	place = seats_place(seat, b->container);
	if (place < 0 && was)
		return fault_set(
			why, -ENODEV,
			"a GPU of container %s is missing: it starts when the GPU is back, "
			"or elsewhere if its pod is deleted",
			b->container);
	if (place < 0)
		return fault_set(why, -ENOENT, "container %s says nothing of a GPU", b->container);
	r = seats_check_alone(p, pod, b->container, &seat->is.container[place], why);
	if (r < 0)
		return r;
	if (!seat->is.seated && seat->is.refusal.reason == PLACEMENT_FITS)
		return fault_set(why, -EAGAIN,
				 "the pod is being deleted, and gets no GPU any more");
	if (!seat->is.seated)
		return say_refusal(&seat->is, &p->seats->names, p->seats->devices, why);
	take_devices(b, &seat->is.container[place]);
	memcpy(seat->key[place], b->key, sizeof(b->key));
	seat->ended &= ~(1u << place);
	return 0;
}

void seats_stood_up(struct plugin *p, const struct binding *b)
{
	int place;
	struct seat *seat = p->seats ? seat_of(p->seats, b, &place) : NULL;

	if (seat && !binding_store_find(&p->bindings, b->key))
		*seat->key[place] = '\0';
}

bool seats_say(struct plugin *p, const struct binding *b)
{
	if (!p->seats)
		return true;
	list_for_each(link, &p->seats->all)
	{
		struct seat *seat = list_entry(link, struct seat, link);

		if (seats_are_of(b, seat) && !seat->said) {
			seat->said = true;
			return true;
		}
	}
	return false;
}

void seats_pod_gone(struct plugin *p, const struct pod *pod)
{
	struct seat *seat = p->seats ? find(p->seats, pod->uid) : NULL;

	if (seat)
		seats_free(seat);
	seats_changed(p);
}

static bool is_over(const struct seat *seat)
{
	for (uint32_t i = 0; i < seat->is.containers; i++)
		if (seat->is.container[i].kind != PLACEMENT_INIT && !(seat->ended >> i & 1))
			return false;
	return true;
}

/* The seat is free when no container of the pod has it or will have it: init containers are
 * followed by others. */
void seats_unbound(struct plugin *p, const struct binding *b)
{
	int place;
	struct seat *seat = p->seats ? seat_of(p->seats, b, &place) : NULL;

	if (seat) {
		seat->ended |= 1u << place;
		if (is_over(seat))
			seats_free(seat);
	}
	seats_changed(p);
}

static void on_soon(struct loop_timer *timer)
{
	struct seats *seats = container_of(timer, struct seats, soon);
	struct plugin *p = seats->plugin;
	struct fault why;

	if (!p->settled)
		return;
	if (!list_empty(&seats->all) && seats_settle(p, &why) < 0)
		log_warning("seats.unsettled", "reason=%s", log_text(why.text).text);
	prestart_consider(p);
	nodes_changed(p->nodes);
}

void seats_changed(struct plugin *p)
{
	if (p->seats)
		loop_arm(&p->seats->soon, 1);
}

int seats_fit(const struct plugin *p, const struct config *config, struct fault *why)
{
	if (config->counted != CONFIG_COUNTED_AMOUNTS || p->host->devices <= SEATING_DEVICES)
		return 0;
	return config_blame(config, "counted", why,
			    "'amounts' goes with up to %d GPUs or parts of GPUs, and this node has "
			    "%u",
			    SEATING_DEVICES, p->host->devices);
}

int seats_open(struct plugin *p, struct fault *why)
{
	struct seats *seats;
	int r;

	if (p->config->counted != CONFIG_COUNTED_AMOUNTS || p->seats)
		return 0;
	if (!p->api)
		return config_blame(p->config, "counted", why,
				    "'amounts' are read from pods, and there is no API server to "
				    "ask: see kubeconfig");
	seats = calloc(1, sizeof(*seats));
	if (!seats)
		return fault_set(why, -ENOMEM, "out of memory");
	r = loop_timer_init(p->host->loop, &seats->soon, on_soon);
	if (r < 0) {
		free(seats);
		return fault_set(why, r, "no timer");
	}
	list_init(&seats->all);
	seats->plugin = p;
	amounts_name(&seats->names, p->config->resource, p->config->domain);
	p->seats = seats;
	return 0;
}

static void on_closed(struct loop_timer *timer)
{
	free(container_of(timer, struct seats, soon));
}

void seats_close(struct seats *seats)
{
	if (!seats)
		return;
	list_for_each(link, &seats->all) seats_free(list_entry(link, struct seat, link));
	loop_timer_close(&seats->soon, on_closed);
}
