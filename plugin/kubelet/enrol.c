/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's folder of device plugins. When the kubelet starts, it removes every socket there
 * and creates its own again: then we listen and register again. It calls us back before it
 * answers, so nothing here waits for it.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/socket.h"
#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/plugin.h"

enum {
	WITHIN_S = 30,
	AGAIN_MOST_S = 30,
	LISTEN_S = 10, /* within which a kubelet that knows us asks for our devices */
};

static void look(struct plugin *p);

/* Logged once, until there is another sentence. */
static void complain(struct enrol *e, const char *sentence)
{
	if (e->complaint && strcmp(e->complaint, sentence) == 0)
		return;
	free(e->complaint);
	e->complaint = strdup(sentence);
	log_warning("kubelet.unregistered", "reason=%s", log_text(sentence).text);
}

/* After one second, then two, four, ... */
static void try_later(struct enrol *e)
{
	uint64_t s = e->failures < 5 ? 1ull << e->failures : AGAIN_MOST_S;

	if (e->failures < 5)
		e->failures++;
	loop_arm(&e->again, s * 1000000000ull);
}

bool enrol_kubelet_is(const struct plugin *p, uint64_t *ret_inode, int64_t *ret_changed_ns)
{
	char path[PLUGIN_PATH + 16];
	struct stat info;

	snprintf(path, sizeof(path), "%s/kubelet.sock", p->folder);
	if (stat(path, &info) != 0 || !S_ISSOCK(info.st_mode))
		return false;
	*ret_inode = info.st_ino;
	*ret_changed_ns = info.st_ctim.tv_sec * INT64_C(1000000000) + info.st_ctim.tv_nsec;
	return true;
}

static void on_answered(void *owner, enum grpc_status status, const char *message,
			struct grpc_bytes answer)
{
	struct serving *s = owner;
	struct plugin *p = s->plugin;
	struct enrol *e = &p->enrol;
	struct fault why;

	(void)answer;
	s->asked = NULL;
	if (status == GRPC_OK) {
		s->kubelet_inode = s->asked_inode;
		s->kubelet_changed_ns = s->asked_changed_ns;
		s->since_ns = loop_now_ns();
		e->failures = 0;
		free(take(e->complaint));
		log_info("kubelet.registered", "resource=%s socket=%s", s->resource, s->socket);
		loop_arm(&e->again, LISTEN_S * 1000000000ull);
		rival_registered(p);
		look(p); /* it may have been restarted meanwhile */
		return;
	}
	fault_set(&why, -EAGAIN, "%s/kubelet.sock: %s", p->folder,
		  message && *message ? message : "the kubelet does not answer");
	complain(e, why.text);
	try_later(e);
}

static void enrol_with(struct serving *s)
{
	struct plugin *p = s->plugin;
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
	uint8_t bytes[1024];
	size_t size;

	options.pre_start_required = config_has_tenants(p->config);
	options.get_preferred_allocation_available = 1;
	request.version = (char *)"v1beta1";
	request.endpoint = strrchr(s->socket, '/') + 1;
	request.resource_name = s->resource;
	request.options = &options;
	size = v1beta1__register_request__get_packed_size(&request);
	if (size > sizeof(bytes))
		return; /* names are bounded by the configuration */
	v1beta1__register_request__pack(&request, bytes);
	if (grpc_ask(p->enrol.kubelet, "/v1beta1.Registration/Register",
		     (struct grpc_bytes){bytes, size}, WITHIN_S * 1000000000ull, on_answered, s,
		     &s->asked) < 0)
		try_later(&p->enrol);
}

/* Is our socket there? */
static bool serve_again(struct serving *s)
{
	struct enrol *e = &s->plugin->enrol;
	struct fault why;

	if (s->server && grpc_server_is_reachable(s->server))
		return true;
	serve_close_one(s);
	/* Two that replace each other's socket would do so for ever. The other one may be about to
	 * end: our predecessor. */
	if (socket_answers(s->socket) == 0)
		fault_set(&why, -EADDRINUSE, "%s: another meted is serving there", s->socket);
	else if (serve_open(s, &why) == 0) {
		s->kubelet_inode = 0;
		return true;
	}
	complain(e, why.text);
	try_later(e);
	return false;
}

/* This is checked now, not as of the last event: the kubelet knows of two owners as soon as the
 * second one registers. */
static bool is_only_owner(struct plugin *p)
{
	struct enrol *e = &p->enrol;
	uint64_t wait_ns;

	rival_look(p, false);
	wait_ns = rival_return_ns(p);
	if (wait_ns) {
		complain(e, "the kubelet has restarted, and NVIDIA's device plugin was running on "
			    "this node: waiting for it to come back");
		loop_arm(&e->again, wait_ns);
	} else if (e->rival) {
		char sentence[200];

		snprintf(sentence, sizeof(sentence),
			 "%s is running on this node: a device has one owner; remove either its "
			 "DaemonSet or mete's here",
			 rival_name(e->rival));
		complain(e, sentence);
		try_later(e);
	}
	return !wait_ns && !e->rival;
}

static void look_at(struct serving *s)
{
	struct plugin *p = s->plugin;
	uint64_t inode;
	int64_t changed_ns;

	/* Between two configurations nothing is served. */
	if (!p->enrol.kubelet || s->asked || !serve_again(s))
		return;
	if (!enrol_kubelet_is(p, &inode, &changed_ns)) {
		s->kubelet_inode = 0;
		return; /* it is waited for */
	}
	if (inode == s->kubelet_inode && changed_ns == s->kubelet_changed_ns)
		return;
	if (!is_only_owner(p))
		return;
	s->asked_inode = inode;
	s->asked_changed_ns = changed_ns;
	enrol_with(s);
}

/* The folder has changed, or it is time to try again. */
static void look(struct plugin *p)
{
	for (uint32_t i = 0; i < p->servings; i++)
		look_at(&p->serving[i]);
}

/* The kubelet asks for our devices after it has answered, and ends its former request when we
 * register again. Therefore meted looks a while later whether it still listens. This also avoids
 * an endless fight with another server of the same resource. */
static bool is_unheard(const struct serving *s)
{
	uint64_t now = loop_now_ns(), due = s->since_ns + LISTEN_S * 1000000000ull;

	if (!s->kubelet_inode || !list_empty((struct list *)&s->streams))
		return false;
	if (now < due)
		loop_arm(&s->plugin->enrol.again, due - now);
	return now >= due;
}

void enrol_lost(const struct serving *s)
{
	if (s->kubelet_inode)
		loop_arm(&s->plugin->enrol.again, 1000000000ull);
}

void enrol_more(struct plugin *p)
{
	loop_arm(&p->enrol.again, 0);
}

bool enrol_is_done(const struct plugin *p)
{
	for (uint32_t i = 0; i < p->servings; i++)
		if (p->serving[i].kubelet_inode)
			return true;
	return false;
}

/* -ENOENT: there is no such folder (yet). */
static int watch_folder(struct plugin *p, struct fault *why)
{
	static const uint32_t events = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVE_SELF;
	struct enrol *e = &p->enrol;
	int r = notices_add(&e->notices, p->folder, events);

	if (r < 0)
		return fault_set(why, r, "%s: %s", p->folder, strerror(-r));
	e->watched = true;
	return 0;
}

static void on_again(struct loop_timer *timer)
{
	struct enrol *e = container_of(timer, struct enrol, again);
	struct plugin *p = container_of(e, struct plugin, enrol);
	struct fault why;

	if (!e->watched && watch_folder(p, &why) < 0) {
		complain(e, why.text);
		try_later(e);
		return;
	}
	for (uint32_t i = 0; i < p->servings; i++)
		if (is_unheard(&p->serving[i]))
			p->serving[i].kubelet_inode = 0;
	rival_look(p, false);
	look(p);
}

static void on_events(struct loop_watch *watch, int events)
{
	struct enrol *e = container_of(watch, struct enrol, folder);
	char buffer[4096] __attribute__((aligned(8)));
	bool lost = false, fresh = false;
	ssize_t n;

	(void)events;
	if (e->notices.polled) {
		struct plugin *p = container_of(e, struct plugin, enrol);

		fresh = notices_ticked(&e->notices, notices_stamp(HASH_BEGIN, p->folder));
		if (!fresh)
			return;
	}
	/* Only the present contents of the folder matter, not the events. */
	while ((n = read(e->notices.fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *event = (const void *)(buffer + at);

			/* The folder itself was removed or renamed. */
			if (event->mask & IN_MOVE_SELF)
				inotify_rm_watch(e->notices.fd, event->wd);
			fresh |= event->len && strncmp(event->name, "nvidia-", 7) == 0;
			lost |= (event->mask & (IN_IGNORED | IN_MOVE_SELF)) != 0;
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
	if (lost) {
		e->watched = false;
		loop_arm(&e->again, 0);
		return;
	}
	rival_look(container_of(e, struct plugin, enrol), fresh);
	look(container_of(e, struct plugin, enrol));
}

static int open_watch(struct plugin *p, struct fault *why)
{
	struct enrol *e = &p->enrol;
	int r = notices_open(&e->notices);

	if (r < 0)
		return fault_set(why, r, "cannot create an inotify instance: %s", strerror(-r));
	r = loop_watch(p->host->loop, &e->folder, e->notices.fd, LOOP_READ, on_events);
	if (r < 0)
		close(take_fd(&e->notices.fd));
	return r < 0 ? fault_set(why, r, "cannot create an inotify instance: %s", strerror(-r)) : 0;
}

/* A meted that was killed left its socket. The socket of another resource is not replaced, and
 * stays until the kubelet restarts. A meted that has just bound its own socket sees that it is
 * gone, and makes it again. */
static void clear_folder(const struct plugin *p)
{
	size_t n = socket_clear(p->folder, "mete-", ".sock");

	if (n)
		log_info("kubelet.cleared", "folder=%s sockets=%zu", p->folder, n);
}

int enrol_open(struct plugin *p, struct fault *why)
{
	struct enrol *e = &p->enrol;
	char path[PLUGIN_PATH + 16];
	int r = 0;

	snprintf(path, sizeof(path), "%s/kubelet.sock", p->folder);
	if (!e->again.open && loop_timer_init(p->host->loop, &e->again, on_again) < 0)
		return fault_set(why, -ENOMEM, "no timer");
	if (!e->folder.open)
		r = open_watch(p, why);
	if (r == 0)
		r = rival_open(p, why);
	if (r == 0 && !e->kubelet)
		r = grpc_client_open(p->host->loop, path, &e->kubelet, why);
	if (r < 0)
		return r;
	r = watch_folder(p, why);
	if (r == -ENOENT) {
		/* No kubelet was ever here, but one may come. */
		complain(e, why->text);
		try_later(e);
		return 0;
	}
	if (r == 0) {
		clear_folder(p);
		rival_look(p, false);
		look(p);
	}
	return r;
}

void enrol_close(struct plugin *p)
{
	struct enrol *e = &p->enrol;

	grpc_client_close(take(e->kubelet));
	for (uint32_t i = 0; i < p->servings; i++) {
		p->serving[i].asked = NULL;
		/* Streams that end now are not reported to anybody. */
		p->serving[i].kubelet_inode = 0;
	}
	free(take(e->complaint));
}
