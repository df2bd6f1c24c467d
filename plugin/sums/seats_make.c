/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the seat of a pod from the amounts of its containers. */
#include <string.h>

#include "plugin/config/portion.h"
#include "plugin/sums/seats_inside.h"

enum { MILLI_ALL = 1000 };

void seats_free(struct seat *seat)
{
	list_remove(&seat->link);
	for (uint32_t i = 0; i < seat->is.containers; i++)
		free(seat->name[i]);
	free(seat->uid);
	free(seat->own_uid);
	free(seat->namespace);
	free(seat->pod);
	free(seat);
}

/* Names of pods are reused: if the UID is known, it decides. */
static bool is_of(const struct binding *b, const char *uid, const char *namespace, const char *pod)
{
	return *b->uid ? strcmp(b->uid, uid) == 0
		       : strcmp(b->pod, pod) == 0 && strcmp(b->namespace, namespace) == 0;
}

bool seats_are_of(const struct binding *b, const struct seat *seat)
{
	return is_of(b, seat->own_uid, seat->namespace, seat->pod);
}

static bool wants_alone(const struct plugin *p, const struct pod *pod, const char *container)
{
	char name[CONFIG_NAME_MAX + 16], own[CONFIG_NAME_MAX + 96];
	const char *text;

	snprintf(name, sizeof(name), "%s/exclusive", p->config->domain);
	snprintf(own, sizeof(own), "%.64s.%s", container, name);
	text = json_text(pod->annotations, own);
	if (!text)
		text = json_text(pod->annotations, name);
	return text && strcmp(text, "true") == 0;
}

/* Its class by its annotations, or else that of a slot of the first GPU. A word that is no class
 * is refused later. */
static bool is_above(const struct plugin *p, const struct pod *pod, const char *container)
{
	char name[CONFIG_NAME_MAX + 16], own[CONFIG_NAME_MAX + 96];
	struct config_share portion = {0};
	const char *text;
	uint32_t slots;

	snprintf(name, sizeof(name), "%s/class", p->config->domain);
	snprintf(own, sizeof(own), "%.64s.%s", container, name);
	text = json_text(pod->annotations, own);
	if (!text)
		text = json_text(pod->annotations, name);
	if (!text && entitled_portion(p, 0, &slots, &portion))
		text = portion.texts[PORTION_class];
	return !text || strcmp(text, "batch") != 0;
}

/* An exclusive container takes a whole GPU, which must have been counted; thousandths are the
 * same on a GPU of any size. */
static bool can_be_alone(const struct seating_container *it)
{
	return !it->slot_milli && it->milli == MILLI_ALL;
}

int seats_check_alone(const struct plugin *p, const struct pod *pod, const char *container,
		      const struct seating_container *it, struct fault *why)
{
	if (!wants_alone(p, pod, container) || can_be_alone(it))
		return 0;
	return fault_set(why, -EINVAL,
			 "container %s: %s/exclusive: a whole GPU is more than the counted amount; "
			 "accepted: together with %s: %u",
			 container, p->config->domain, p->seats->names.milli, MILLI_ALL * it->gpus);
}

static const char *own_uid(const struct pod *pod)
{
	return pod->mirrored ? pod->mirrored : pod->uid;
}

/* A container that was bound before has the amounts of its binding. */
bool seats_is_bound(const struct plugin *p, const struct pod *pod, const char *container)
{
	list_for_each(link, (struct list *)&p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (strcmp(b->container, container) == 0 &&
		    is_of(b, own_uid(pod), pod->namespace, pod->name))
			return true;
	}
	return false;
}

void seats_reread(const struct plugin *p, struct seat *seat)
{
	const struct pod *pod = pods_find_uid(p->pods, seat->uid);
	bool begun = false, changed = false;

	seat->is.above = pod != NULL;
	for (uint32_t i = 0; i < seat->is.containers; i++) {
		struct seating_container *it = &seat->is.container[i];
		const struct binding *b = seat->bound[i];
		bool was = it->exclusive;

		if (b)
			it->exclusive = b->exclusive;
		else if (pod)
			it->exclusive = can_be_alone(it) && wants_alone(p, pod, seat->name[i]);
		changed |= it->exclusive != was;
		begun |= *seat->key[i] != '\0';
		seat->is.above &= pod && is_above(p, pod, seat->name[i]);
	}
	if (changed && !begun)
		seat->is.seated = false;
}

static int add_container(const struct plugin *p, struct seat *seat, const struct pod *pod, size_t i,
			 const char *asks, struct fault *why)
{
	const struct seats *seats = p->seats;
	struct seating_container *it = &seat->is.container[seat->is.containers];
	int r;

	if (!amounts_any(&pod->amounts[i]) ||
	    (strcmp(pod->containers[i], asks) != 0 && seats_is_bound(p, pod, pod->containers[i])))
		return 0;
	if (seat->is.containers == PLACEMENT_CONTAINERS)
		return fault_set(why, -E2BIG, "more than %d containers of the pod have GPUs",
				 PLACEMENT_CONTAINERS);
	r = amounts_split(&pod->amounts[i], &seats->names, it, why);
	if (r < 0) {
		fault_within(why, "container %s", pod->containers[i]);
		return r;
	}
	r = seats_check_alone(p, pod, pod->containers[i], it, why);
	if (r < 0)
		return r;
	seat->name[seat->is.containers] = strdup(pod->containers[i]);
	if (!seat->name[seat->is.containers])
		return fault_set(why, -ENOMEM, "out of memory");
	seat->is.containers++;
	return 0;
}

int seats_make(struct plugin *p, const struct pod *pod, const char *asks, struct seat **ret_seat,
	       struct fault *why)
{
	struct seat *seat = calloc(1, sizeof(*seat));
	int r = 0;

	if (!seat)
		return fault_set(why, -ENOMEM, "out of memory");
	list_append(&p->seats->all, &seat->link);
	seat->uid = strdup(pod->uid);
	seat->own_uid = strdup(own_uid(pod));
	seat->namespace = strdup(pod->namespace);
	seat->pod = strdup(pod->name);
	seat->priority = pod->priority;
	if (!seat->uid || !seat->own_uid || !seat->namespace || !seat->pod)
		r = fault_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < pod->container_count; i++)
		r = add_container(p, seat, pod, i, asks, why);
	if (r == 0 && seating_valid(&seat->is) < 0)
		r = fault_set(why, -EINVAL,
			      "%s: the pod has %u containers with GPUs; accepted: at "
			      "most %d GPUs in all",
			      p->seats->names.gpu, seat->is.containers, PLACEMENT_SLOTS);
	if (r < 0)
		seats_free(seat);
	else
		*ret_seat = seat;
	return r;
}
