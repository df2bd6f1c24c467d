/* SPDX-License-Identifier: Apache-2.0 */
#include "node/kubernetes.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/least.h"
#include "node/daemon.h"
#include "node/devices/divided.h"
#include "node/devices/health.h"
#include "node/devices/nvml.h"
#include "node/events.h"
#include "node/library.h"
#include "node/memory/book.h"
#include "node/memory/native.h"
#include "node/memory/prices.h"
#include "node/move/move.h"
#include "node/peers/rows.h"
#include "node/standby.h"
#include "node/state/absent.h"
#include "node/state/recorder.h"
#include "node/tenants/change.h"
#include "node/tenants/tenant.h"
#include "node/tenants/tenant_find.h"
#include "node/tenants/tenant_spec.h"
#include "node/time/launches.h"
#include "node/time/schedule.h"
#include "node/upcalls.h"
#include "node/waits.h"

struct kubernetes {
	const struct plugin_entry *entry;
	struct plugin *plugin;
	struct host host;
	struct host_device device[DAEMON_DEVICES], unparted[DAEMON_DEVICES];
	struct loop_signal reload;
	int driver[WIRE_LIBRARIES]; /* what containers load; -1: none */
	struct health_watch health;
	struct launches launches;
	bool leaving; /* closed, and has not ended */
};

/* The least with which a program can start: it has no share. */
static void limit_observer(struct daemon *d, struct tenant_spec *spec, char *text, size_t size)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < spec->devices; i++)
		bytes = most(bytes, prices_least(d, spec->device[i]));
	snprintf(text, size, "%" PRIu64 "B", bytes);
	spec->texts[0] = text;
}

static int make(struct daemon *d, const struct host_tenant *spec, uint32_t *ret_id,
		char ret_folder[HOST_FOLDER_MAX], struct fault *why)
{
	struct tenant_spec tenant = {.owner = geteuid(),
				     .name = spec->name,
				     .devices = spec->devices,
				     .pods = true,
				     .observes = spec->observes};
	struct tenant *t;
	char memory[32];
	int r;

	if (spec->devices == 0 || spec->devices > WIRE_DEVICES)
		return fault_set(why, -EINVAL, "%u devices; accepted: 1 to %d", spec->devices,
				 WIRE_DEVICES);
	memcpy(tenant.texts, spec->texts, sizeof(tenant.texts));
	for (uint32_t i = 0; i < spec->devices; i++) {
		if (spec->device[i] >= d->devices)
			return fault_set(why, -ENODEV, "there is no device %u", spec->device[i]);
		tenant.device[i] = spec->device[i];
	}
	if (spec->observes)
		limit_observer(d, &tenant, memory, sizeof(memory));
	r = tenant_make(d, &tenant, &t, why);
	if (r < 0)
		return r;
	tenant_keep(t);
	recorder_tenant(t);
	*ret_id = t->id;
	tenant_folder(t, ret_folder, HOST_FOLDER_MAX);
	return 0;
}

static int keep(struct daemon *d, uint32_t id, char ret_folder[HOST_FOLDER_MAX])
{
	struct tenant *t = tenant_find(d, id);

	if (!t) {
		int r = absent_keep(d, id, ret_folder, HOST_FOLDER_MAX);

		return r < 0 ? r : HOST_ABSENT;
	}
	t->pods = true;
	tenant_keep(t);
	tenant_folder(t, ret_folder, HOST_FOLDER_MAX);
	return 0;
}

/* Nobody waits for whom no record names: meted was killed before the kubelet was answered, and no
 * container was started. Its room is given to others from now on. */
static void kept_all(struct daemon *d)
{
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (!t->pods || t->keepers)
			continue;
		t->kept = true;
		tenant_maybe_end(t);
	}
}

static int set(struct daemon *d, uint32_t id, const struct host_change *changes, uint32_t count,
	       struct fault *why)
{
	struct tenant *t = tenant_find(d, id);
	struct change all[SHARE_FIELDS];

	for (uint32_t i = 0; i < count; i++)
		all[i] = (struct change){changes[i].key, changes[i].value};
	return t ? change_tenant(t, NULL, all, count, why)
		 : fault_set(why, -ESRCH, "there is no tenant %u", id);
}

static void end(struct daemon *d, uint32_t id)
{
	struct tenant *t = tenant_find(d, id);

	if (t)
		tenant_retire(t);
	else
		absent_end(d, id);
}

static void guests(struct tenant *t, const struct host_reader *reader)
{
	list_for_each(link, &t->guests)
	{
		for (uint32_t i = 0; i < t->devices; i++) {
			struct wire_guest_row row;

			rows_guest(list_entry(link, struct guest, link), i, &row);
			reader->guest(reader->owner, &row);
		}
	}
}

static void rows(struct daemon *d, const struct host_reader *reader)
{
	if (reader->device || reader->tenant || reader->guest)
		book_refresh_all(d);
	for (uint32_t i = 0; reader->device && i < d->devices; i++) {
		struct wire_device_row row;

		if (!device_is_shown(&d->device[i]))
			continue;
		rows_device(d, i, &row);
		reader->device(reader->owner, &row);
	}
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		for (uint32_t i = 0; reader->tenant && i < t->devices; i++) {
			struct wire_tenant_row row;

			rows_tenant(t, i, &row);
			reader->tenant(reader->owner, &row);
		}
		if (reader->guest)
			guests(t, reader);
	}
	if (reader->stranger)
		health_watch_strangers(&d->kubernetes->health, reader);
	if (reader->measured)
		health_watch_measured(&d->kubernetes->health, reader);
}

static void watch(struct daemon *d, host_health *seen, void *owner)
{
	if (health_watch_open(&d->kubernetes->health, d, seen, owner) < 0)
		log_warning("health.unwatched", "reason=\"no timer\"");
	if (launches_open(&d->kubernetes->launches, d) < 0)
		log_warning("launches.unwatched", "reason=\"no timer\"");
}

static void happened(struct daemon *d, uint32_t tenant, uint32_t device, enum happened kind,
		     const char *said)
{
	const struct tenant *t = tenant ? tenant_find(d, tenant) : NULL;

	for (uint32_t i = 0; t && i < t->devices; i++) {
		if (t->device[i].index != device)
			continue;
		events_at(&t->device[i], kind, "%s", said);
		return;
	}
	events_device(d, device, kind, "%s", said);
}

static bool cordoned(const struct daemon *d, uint32_t device)
{
	return d->device[device].cordoned;
}

static void parking(struct daemon *d, uint64_t run_ns, uint64_t delay_ns)
{
	move_parking(d, run_ns == UINT64_MAX ? d->options.park_after_ns : run_ns,
		     delay_ns == UINT64_MAX ? d->options.park_delay_ns : delay_ns);
}

static int compute_mode(struct daemon *d, uint32_t device, bool exclusive)
{
	return d->nvml ? nvml_set_exclusive(d->nvml, device, exclusive) : -ENOTSUP;
}

static struct host_link link_between(const struct daemon *d, uint32_t a, uint32_t b)
{
	struct nvml_link link = d->nvml ? nvml_link(d->nvml, a, b) : (struct nvml_link){0};

	return (struct host_link){.nvlinks = link.nvlinks, .level = link.level};
}

void kubernetes_cordoned(struct daemon *d, uint32_t device)
{
	const struct kubernetes *k = d->kubernetes;

	if (k && k->health.seen)
		k->health.seen(k->health.owner, device, HOST_CORDON, 0);
}

static void drop_driver(struct kubernetes *k)
{
	for (unsigned i = 0; i < WIRE_LIBRARIES; i++) {
		if (k->driver[i] >= 0)
			close(k->driver[i]);
		k->driver[i] = -1;
	}
}

static void ended(struct daemon *d)
{
	d->kubernetes->leaving = false;
}

static void driver(struct daemon *d, const int fd[WIRE_LIBRARIES])
{
	/* Running containers rely on the former libraries. */
	if (fd[WIRE_LIBRARY_CUDA] < 0)
		return;
	drop_driver(d->kubernetes);
	memcpy(d->kubernetes->driver, fd, sizeof(d->kubernetes->driver));
}

int kubernetes_driver(const struct kubernetes *k, uint32_t library)
{
	return k && library < WIRE_LIBRARIES ? k->driver[library] : -1;
}

static int load(struct kubernetes *k, struct fault *why)
{
	static const char *const places[] = {"../plugin/libmete-plugin.so",
					     "../lib/mete/libmete-plugin.so", NULL};
	const void *entry;
	int r = library_load(places, "mete_plugin", HOST_VERSION, &entry, why);

	if (r == 0)
		k->entry = entry;
	return r;
}

#define STANDS_BY "another meted serves the node: this one stands by, and serves when it has ended"

static struct host_device of(const struct nvml_device *info)
{
	return (struct host_device){
		.uuid = info->uuid_text,
		.gpu_uuid = info->gpu_uuid,
		.model = info->model,
		.total_bytes = info->total_bytes,
		.gpu_bytes = info->gpu_bytes,
		.minor = info->minor,
		.pci = info->pci,
		.cc_major = info->cc_major,
		.cc_minor = info->cc_minor,
		.clique = info->clique,
		.gpu_index = info->gpu_index,
		.part_index = info->part_index,
		.gpu_instance = info->gpu_instance,
		.compute_instance = info->compute_instance,
		.is_divisible = info->is_divisible,
		.gone = info->gone,
		.part = &info->part,
	};
}

static void fill_devices(struct kubernetes *k, const struct daemon *d)
{
	uint32_t unparted = d->nvml ? nvml_unparted(d->nvml) : 0;

	for (uint32_t i = 0; i < d->devices; i++)
		k->device[i] = of(d->device[i].info);
	for (uint32_t i = 0; i < unparted && i < DAEMON_DEVICES; i++)
		k->unparted[i] = of(nvml_unparted_gpu(d->nvml, i));
	k->host.devices = d->devices;
	k->host.unparted = unparted < DAEMON_DEVICES ? unparted : DAEMON_DEVICES;
}

int kubernetes_divided(struct daemon *d, uint32_t former, struct fault *why)
{
	struct kubernetes *k = d->kubernetes;

	if (!k || !k->plugin)
		return 0;
	fill_devices(k, d);
	return k->entry->divided(k->plugin, former, why);
}

static void fill(struct kubernetes *k, struct daemon *d)
{
	k->host = (struct host){
		.version = HOST_VERSION,
		.device = k->device,
		.unparted_gpu = k->unparted,
		.loop = &d->loop,
		.daemon = d,
		.place = d->place,
		.driver_folder = d->options.driver,
		.mig_config = d->options.mig_config,
		.driver_version = d->nvml ? nvml_driver(d->nvml) : "",
		.cuda_version = d->nvml ? nvml_cuda(d->nvml) : 0,
		.log_level = d->options.log_level,
		.missing = d->stands_by ? STANDS_BY : d->missing.why,
		.missing_driver = d->missing.no_driver,
		.stands_by = d->stands_by,
		.carried = &d->carried,
		.make = make,
		.keep = keep,
		.kept_all = kept_all,
		.set = set,
		.end = end,
		.rows = rows,
		.watch = watch,
		.waits = waits_tell,
		.happened = happened,
		.cordoned = cordoned,
		.link = link_between,
		.compute_mode = compute_mode,
		.at_once = schedule_at_once,
		.parking = parking,
		.native_limits = native_switch,
		.look = divided_now,
		.driver = driver,
		.finished = standby_finished,
		.ended = ended,
	};
	fill_devices(k, d);
}

static void on_reload(struct loop_signal *signal)
{
	struct kubernetes *k = container_of(signal, struct kubernetes, reload);

	/* The signal may arrive while the library is being opened. */
	if (k->plugin)
		k->entry->reload(k->plugin);
}

int kubernetes_who(struct daemon *d, const char *token, const char *audience, right_told *told,
		   void *owner, struct right_asked **ret_asked)
{
	const struct kubernetes *k = d->kubernetes;

	return k && k->plugin ? k->entry->who(k->plugin, token, audience, told, owner, ret_asked)
			      : -ENOTCONN;
}

int kubernetes_may(struct daemon *d, const char *user, const struct right *right, right_told *told,
		   void *owner, struct right_asked **ret_asked)
{
	const struct kubernetes *k = d->kubernetes;

	return k && k->plugin ? k->entry->may(k->plugin, user, right, told, owner, ret_asked)
			      : -ENOTCONN;
}

void kubernetes_forget(struct daemon *d, struct right_asked *asked)
{
	if (asked)
		d->kubernetes->entry->forget(asked);
}

bool kubernetes_is_leaving(const struct kubernetes *k)
{
	return k && k->leaving;
}

void kubernetes_free(struct kubernetes *k)
{
	if (!k)
		return;
	drop_driver(k);
	health_watch_free(&k->health);
	free(k);
}

int kubernetes_open(struct daemon *d, struct kubernetes **ret_kubernetes, struct fault *why)
{
	struct kubernetes *k;
	int r;

	if (!d->options.kubernetes)
		return 0;
	k = calloc(1, sizeof(*k));
	if (!k)
		return fault_set(why, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < WIRE_LIBRARIES; i++)
		k->driver[i] = -1;
	*ret_kubernetes = k; /* now: the library uses it while it is being opened */
	r = load(k, why);
	if (r < 0)
		return r;
	fill(k, d);
	/* First, because an unhandled SIGHUP ends the program. If this fails, the file is not read
	 * again, which is no reason not to start. */
	best_effort(loop_signal(&d->loop, &k->reload, SIGHUP, on_reload));
	return k->entry->open(&k->host, d->options.kubernetes, &k->plugin, why);
}

bool kubernetes_give(struct kubernetes *k, struct handover_sockets *ret_sockets)
{
	return k && k->plugin && k->entry->give(k->plugin, ret_sockets) == 0;
}

bool kubernetes_inherit(struct kubernetes *k, const struct handover_sockets *sockets)
{
	struct fault why;

	if (!k || !k->plugin)
		return false;
	if (k->entry->inherit(k->plugin, sockets, &why) == 0)
		return true;
	log_warning("standby.uninherited", "reason=%s", log_text(why.text).text);
	return false;
}

bool kubernetes_finish(struct kubernetes *k, bool given)
{
	return k && k->plugin && k->entry->finish(k->plugin, given) == 1;
}

void kubernetes_close(struct kubernetes *k)
{
	if (!k)
		return;
	k->leaving = k->plugin != NULL;
	/* The next plugin is in this process, unless the process ends. */
	if (k->host.stands_by && k->host.daemon->stopping)
		k->host.carried = NULL;
	if (k->plugin)
		k->entry->close(k->plugin);
	health_watch_close(&k->health);
	launches_close(&k->launches);
	waits_tell(k->host.daemon, NULL, NULL);
	loop_signal_close(&k->reload);
}
