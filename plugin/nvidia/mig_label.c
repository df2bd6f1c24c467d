/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value of the label at a time: is the node so already, `pending`, divide, `success` or
 * `failed`. A value that comes meanwhile is next. As in mig-manager, `failed` stays until the label
 * changes or meted starts again.
 *
 * What the driver is asked takes seconds, and is asked by a thread. What a division has made
 * is found by node/devices/divided.c, as if somebody else had made it.
 */
#include "plugin/nvidia/mig_label.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "kube/json.h"
#include "mig/apply.h"
#include "mig/place.h"
#include "plugin/refused.h"
#include "plugin/dra/dra.h"
#include "plugin/kubelet/allocated.h"
#include "plugin/nodes.h"
#include "plugin/sums/seats.h"

#define LABEL  "nvidia.com/mig.config"
#define STATE  LABEL ".state"
#define MIRROR "kubernetes.io/config.mirror"

enum { AGAIN_S = 10, LABEL_MAX = 64, LOOKS_AFTER = 2 };

enum step {
	RESTS,
	COMPARES, /* the thread: is it so? */
	ASKS,	  /* the API server: who is there? */
	DIVIDES,  /* the thread */
	TELLS,	  /* the API server */
};

/* Who has a device, so that it is not divided under him. */
struct user {
	const char *uuid; /* the device's, or `place` */
	char place[IDS_BYTES];
	char who[160];
};

struct mig_label {
	struct plugin *plugin;
	struct loop_work work;
	struct loop_timer again;
	struct api_asked *asked;
	enum step step;
	const char *state, *told; /* to be told; last told; NULL: nothing yet */
	char file[PLUGIN_PATH];
	char wanted[LABEL_MAX], doing[LABEL_MAX];
	uint32_t users;
	struct user user[HOST_DEVICES];
	cJSON *pods; /* names of the node's pods that run, by UID; NULL: not asked, or unknown */
	/* Checks of health until containers get devices again, if meted does not find before what
	 * has been made; 0: they get some. */
	uint32_t looks;
	/* The thread's. */
	int r;
	struct fault why;
	char shown[16];		   /* what the node says of itself; "": nothing */
	const char *driver_folder; /* the host's; it outlives the plugin */
	/* After close. */
	uint32_t open; /* the timer, and the thread */
	bool left;     /* the thread frees it: nobody waits for an answer of the driver */
	void (*closed)(struct plugin *p);
};

static void go_on(struct mig_label *label);

/* ---- containers get devices, or wait -------------------------------------------------------- */

static void hold_back(struct mig_label *label, bool held)
{
	struct plugin *p = label->plugin;

	for (uint32_t i = 0; i < p->host->devices; i++)
		p->offer[i].dividing = held;
	serve_changed(p);
	seats_changed(p);
	nodes_changed(p->nodes);
	if (!held)
		prestart_consider(p);
}

/* What a division has taken is unhealthy by then. */
void mig_label_look(struct mig_label *label)
{
	if (label && label->step == RESTS && label->looks && --label->looks == 0)
		hold_back(label, false);
}

/* That look began after the division. */
void mig_label_divided(struct mig_label *label)
{
	if (!label || !label->looks)
		return;
	label->looks = 1;
	mig_label_look(label);
}

/* ---- who has what --------------------------------------------------------------------------- */

static void add_user(struct mig_label *label, uint32_t device, const char *kind, const char *name)
{
	struct user *user = &label->user[label->users];

	if (device >= label->plugin->host->devices || label->users == HOST_DEVICES)
		return;
	for (uint32_t i = 0; i < label->users; i++)
		if (label->user[i].uuid == label->plugin->host->device[device].uuid)
			return;
	user->uuid = label->plugin->host->device[device].uuid;
	snprintf(user->who, sizeof(user->who), "%s %.120s", kind, name);
	label->users++;
}

/* What a pod was given with migStrategy: dynamic, before this node had a label that divides. */
static void add_place(struct mig_label *label, const char *id, const char *name)
{
	struct user *user = &label->user[label->users];

	if (label->users == HOST_DEVICES || strlen(id) >= IDS_BYTES)
		return;
	snprintf(user->place, sizeof(user->place), "%.63s", id);
	user->uuid = user->place;
	snprintf(user->who, sizeof(user->who), "pod %.120s", name);
	label->users++;
}

static void on_tenant(void *owner, const struct wire_tenant_row *row)
{
	add_user(owner, row->device, "tenant", row->name.text);
}

/* Given by the kubelet, whether the container has started or not. Its record keeps what an ended
 * pod had until it gives something again. */
static void on_given(void *owner, const struct pod *pod, const char *uid, const char *id)
{
	struct mig_label *label = owner;
	const char *name = pod ? pod->name : json_text(label->pods, uid);
	int device = allocated_device(label->plugin, id);

	if (!name && label->pods)
		return;
	if (device >= 0)
		add_user(label, (uint32_t)device, "pod", name ? name : uid);
	else if (mig_place_is_name(id))
		add_place(label, id, name ? name : uid);
}

static void add_pod(cJSON *pods, const cJSON *pod)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(pod, "metadata");
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(pod, "status");
	/* The kubelet knows a static pod by another UID. */
	const char *of_static =
		json_text(cJSON_GetObjectItemCaseSensitive(meta, "annotations"), MIRROR);
	const char *uid = of_static ? of_static : json_text(meta, "uid");
	const char *name = json_text(meta, "name"), *phase = json_text(status, "phase");
	bool over = phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0);

	if (uid && name && !over)
		cJSON_AddStringToObject(pods, uid, name);
}

static void find_users(struct mig_label *label)
{
	struct plugin *p = label->plugin;
	const struct host_reader reader = {.owner = label, .tenant = on_tenant};

	label->users = 0;
	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		for (uint32_t i = 0; i < b->devices; i++)
			add_user(label, b->device[i], "pod", b->pod);
	}
	allocated_of_all(p, on_given, label);
	p->host->rows(p->host->daemon, &reader);
	for (uint32_t i = 0; i < p->host->devices; i++)
		if (p->dra && dra_has(p->dra, i))
			add_user(label, i, "a claim of", p->host->device[i].uuid);
}

static const char *who(void *owner, const char *uuid)
{
	struct mig_label *label = owner;

	for (uint32_t i = 0; i < label->users; i++)
		if (strcmp(label->user[i].uuid, uuid) == 0)
			return label->user[i].who;
	return NULL;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static int read_spec(struct mig_label *label, struct mig_spec *spec)
{
	/* It may be a link, as are all files of a ConfigMap. */
	owned(close) int fd = open(label->file, O_RDONLY | O_CLOEXEC);
	owned(free) char *text = NULL;
	size_t size = 0;
	int r = fd < 0 ? -errno : file_slurp_from(fd, MIG_SPEC_BYTES_MAX, &text, &size);

	if (r < 0)
		return fault_set(&label->why, r, "%.200s: %s", label->file, strerror(-r));
	return mig_spec_parse(label->file, text, size, label->doing, spec, &label->why);
}

static void run(struct loop_work *work)
{
	struct mig_label *label = container_of(work, struct mig_label, work);
	const struct mig_tenants tenants = {label, who};
	owned(mig_spec_done) struct mig_spec spec = {0};
	owned(mig_close) struct mig_nvml *nvml = NULL;

	label->r = read_spec(label, &spec);
	if (label->r == 0)
		label->r = mig_open(label->driver_folder, &nvml, &label->why);
	if (label->r < 0)
		return;
	label->r = label->step == DIVIDES ? mig_apply(nvml, &spec, false, &tenants, &label->why)
					  : mig_assert(nvml, &spec, false, &label->why);
}

static void on_finished(struct loop_work *work);

static void start(struct mig_label *label, enum step step)
{
	label->step = step;
	if (loop_work(label->plugin->host->loop, &label->work, run, on_finished) == 0)
		return;
	if (step == DIVIDES) /* it may not be tried again */
		label->looks = LOOKS_AFTER;
	label->step = RESTS;
	label->doing[0] = '\0';
	loop_arm(&label->again, AGAIN_S * 1000000000ull);
}

/* ---- telling -------------------------------------------------------------------------------- */

static void on_told(void *owner, int status, const char *problem, const cJSON *object)
{
	struct mig_label *label = owner;

	(void)status;
	(void)object;
	label->asked = NULL;
	if (problem) {
		log_warning("mig.untold", "reason=%s", log_text(problem).text);
		loop_arm(&label->again, AGAIN_S * 1000000000ull);
		return;
	}
	label->told = label->state;
	go_on(label);
}

/* What the node says already, from before we were there, need not be told. */
static void tell(struct mig_label *label, const char *state)
{
	struct plugin *p = label->plugin;
	char path[400], body[160];
	struct api_request request = {.verb = "PATCH",
				      .path = path,
				      .content = "application/merge-patch+json",
				      .body = body};

	label->step = TELLS;
	label->state = state;
	if (!label->told && strcmp(label->shown, state) == 0) {
		label->told = state;
		go_on(label);
		return;
	}
	snprintf(path, sizeof(path), "/api/v1/nodes/%s/status", p->node);
	snprintf(body, sizeof(body),
		 "{\"metadata\":{\"labels\":{\"" STATE "\":\"%s\"}},\"status\":{}}", state);
	if (api_ask(p->api, &request, on_told, label, &label->asked) < 0)
		loop_arm(&label->again, AGAIN_S * 1000000000ull);
}

/* ---- from step to step ---------------------------------------------------------------------- */

static bool is_state(const struct mig_label *label, const char *state)
{
	return label->told && strcmp(label->told, state) == 0;
}

static void say_failed(struct mig_label *label)
{
	struct fault what = label->why;

	fault_within(&what, LABEL "=%s", label->doing);
	log_error("mig.failed", "reason=%s", log_text(what.text).text);
	events_node(label->plugin, "MigConfigFailed", what.text);
	refused_set(label->plugin, REFUSED_MIG, what.text);
}

static void end(struct mig_label *label, bool well)
{
	if (!well)
		say_failed(label);
	else
		log_info("mig.done", "config=%s", log_text(label->doing).text);
	tell(label, well ? "success" : "failed");
}

static void divide(struct mig_label *label)
{
	find_users(label);
	start(label, DIVIDES);
}

/* Without an answer whoever is on the kubelet's record counts. */
static void on_pods(void *owner, int status, const char *problem, const cJSON *object)
{
	struct mig_label *label = owner;
	const cJSON *items = cJSON_GetObjectItemCaseSensitive(object, "items"), *pod;

	(void)status;
	label->asked = NULL;
	cJSON_Delete(label->pods);
	label->pods = problem || !cJSON_IsArray(items) ? NULL : cJSON_CreateObject();
	cJSON_ArrayForEach(pod, items)
	{
		if (label->pods)
			add_pod(label->pods, pod);
	}
	divide(label);
}

/* First nobody new, then who is there. With the key `mete` pods are watched anyway. */
static void prepare(struct mig_label *label)
{
	struct plugin *p = label->plugin;
	char path[400];
	const struct api_request request = {.verb = "GET", .path = path};

	hold_back(label, true);
	label->looks = 0;
	snprintf(path, sizeof(path), "/api/v1/pods?fieldSelector=spec.nodeName%%3D%s", p->node);
	label->step = ASKS;
	if (p->pods || api_ask(p->api, &request, on_pods, label, &label->asked) < 0)
		divide(label);
}

/* The timer and the thread end in any order. */
static void release(struct mig_label *label)
{
	void (*closed)(struct plugin * p) = label->closed;
	struct plugin *p = label->plugin;

	if (--label->open)
		return;
	cJSON_Delete(take(label->pods));
	if (!label->left)
		free(label);
	closed(p);
}

static void on_finished(struct loop_work *work)
{
	struct mig_label *label = container_of(work, struct mig_label, work);
	bool compared = label->step == COMPARES;

	if (label->left && !label->open) {
		free(label);
		return;
	}
	label->left = false; /* the timer is open still */
	if (label->closed) {
		if (compared)
			return;
		release(label);
		return;
	}
	if (!compared) {
		label->looks = LOOKS_AFTER;
		label->plugin->host->look(label->plugin->host->daemon);
	}
	if (!compared || label->r <= 0) {
		end(label, label->r == 0);
		return;
	}
	log_info("mig.divides", "config=%s reason=%s", log_text(label->doing).text,
		 log_text(label->why.text).text);
	tell(label, "pending");
}

/* Something has been told, or nothing is under way. */
static void go_on(struct mig_label *label)
{
	if (label->step == TELLS && is_state(label, "pending")) {
		prepare(label);
		return;
	}
	label->step = RESTS;
	if (!*label->wanted || strcmp(label->wanted, label->doing) == 0) {
		if (label->looks == 1)
			mig_label_look(label);
		return;
	}
	snprintf(label->doing, sizeof(label->doing), "%s", label->wanted);
	refused_set(label->plugin, REFUSED_MIG, NULL);
	start(label, COMPARES);
}

static void on_again(struct loop_timer *timer)
{
	struct mig_label *label = container_of(timer, struct mig_label, again);

	if (label->step == TELLS && !label->asked)
		tell(label, label->state);
	else if (label->step == RESTS)
		go_on(label);
}

void mig_label_seen(struct mig_label *label, const cJSON *labels)
{
	const char *wanted = label ? json_text(labels, LABEL) : NULL;
	const char *shown = label ? json_text(labels, STATE) : NULL;

	if (!label)
		return;
	snprintf(label->shown, sizeof(label->shown), "%s", shown ? shown : "");
	/* As in mig-manager: a label that goes changes nothing, and may come again. */
	snprintf(label->wanted, sizeof(label->wanted), "%s", wanted ? wanted : "");
	if (label->step != RESTS)
		return;
	if (!*label->wanted) {
		label->doing[0] = '\0';
		refused_set(label->plugin, REFUSED_MIG, NULL);
	}
	go_on(label);
}

/* ---- opening and closing -------------------------------------------------------------------- */

int mig_label_open(struct plugin *p, const char *file, struct mig_label **ret_label,
		   struct fault *why)
{
	struct mig_label *label;
	int r;

	if (strlen(file) >= sizeof(label->file))
		return fault_set(why, -ENAMETOOLONG, "--mig-config: the path is too long");
	label = calloc(1, sizeof(*label));
	if (!label)
		return fault_set(why, -ENOMEM, "out of memory");
	label->plugin = p;
	label->driver_folder = p->host->driver_folder;
	snprintf(label->file, sizeof(label->file), "%s", file);
	r = loop_timer_init(p->host->loop, &label->again, on_again);
	if (r < 0) {
		free(label);
		return fault_set(why, r, "no timer");
	}
	*ret_label = label;
	return 0;
}

static void on_timer_closed(struct loop_timer *timer)
{
	release(container_of(timer, struct mig_label, again));
}

bool mig_label_close(struct mig_label *label, void (*closed)(struct plugin *p))
{
	if (!label)
		return false;
	label->closed = closed;
	/* A driver that hangs must not keep a meted that ends; one that divides shall finish it. */
	label->left = label->work.busy && label->step == COMPARES;
	label->open = 1 + (label->work.busy && !label->left);
	if (label->asked)
		api_forget(label->asked);
	label->asked = NULL;
	loop_timer_close(&label->again, on_timer_closed);
	return true;
}
