/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/*
 * fake_kubelet FOLDER: the kubelet's sockets in FOLDER/device-plugins and FOLDER/pod-resources,
 * and what it does to device plugins: it dials back before it answers Register, listens to the
 * devices, and makes calls. It obeys lines of its standard input, "TAG VERB WORD...", and answers
 * each with a line "TAG ..."; lines with "*" tell what happened. Ends with its input.
 *
 *	list                             the devices as told last: ID=HEALTH...
 *	near                             ID=NUMANODE... of those that have one
 *	allocate ID...                   "ok cdi=NAME mark=K=V env=K=V mount=FROM:TO node=FROM:TO ..."
 *	allocate ID... + ID...           of two containers in one call
 *	prefer SIZE MUST,MUST|- ID...    "ok ID..."
 *	start ID...                      PreStartContainer
 *	pod NAMESPACE NAME CONTAINER ID...  what pod-resources says; without ids: no more
 *	answer list|register CODE TEXT   these calls are refused so; 0: no more
 *	garbage on|off                   pod-resources answers nonsense
 *	turn RESOURCE                    listens to that resource alone; others register unasked
 *	beside RESOURCE VERB WORD...     a call of that resource's plugin, whichever is listened to
 *	hang on|off                      Register and List are not answered
 *	restart                          as a kubelet does: removes all sockets, and serves anew
 *	replace                          serves anew at kubelet.sock alone
 *	away, back                       serves nothing; serves again
 *	cut                              leaves the stream of devices
 *	deaf on|off                      does not ask for it
 *	asked                            how many Lists there were
 *
 * Refusals are "error CODE TEXT".
 */
/* clang-format on */
#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/list.h"
#include "kube/grpc.h"
#include "kube/proto/deviceplugin.pb-c.h"
#include "tests/check.h"
#include "tests/plugin/kubelet_calls.h"
#include "tests/plugin/kubelet_pods.h"
#include "tests/plugin/kubelet_stream.h"

enum { KNOWN_MAX = 32, HELD_MAX = 256 };

/* A plugin that registered another resource than the one that is listened to. */
struct known {
	char resource[100], socket[400];
	struct grpc_client *beside; /* NULL: it was not called yet */
};

struct refusal {
	int code;
	char text[300];
};

static struct {
	struct loop loop;
	struct loop_watch input;
	struct grpc_server *plugins, *pods;
	struct grpc_client *endpoint;
	struct list calls, calls_beside;
	struct kubelet_stream *stream;
	struct grpc_call *registering; /* is answered when the plugin has */
	struct grpc_call *held[HELD_MAX];
	size_t held_count, asked;
	char folder[256], socket[400], resource[100];
	V1beta1__ListAndWatchResponse *devices;
	struct kubelet_pods holders;
	struct refusal list, registration;
	bool garbage, hang, deaf;
	char only[100]; /* the one resource that is listened to; "": the last one */
	struct known known[KNOWN_MAX];
	size_t known_count;
	char *line;
	size_t have, room;
} k;

/* The plugin's devices. */

static void on_devices(void *owner, struct grpc_bytes message)
{
	(void)owner;
	if (k.devices)
		v1beta1__list_and_watch_response__free_unpacked(k.devices, NULL);
	k.devices = v1beta1__list_and_watch_response__unpack(NULL, message.size, message.data);
	check(k.devices);
	printf("* listed %zu\n", k.devices->n_devices);
}

/* Another one may have taken its place. */
static void on_stream_ended(void *owner, struct kubelet_stream *stream)
{
	(void)owner;
	if (k.stream == stream)
		k.stream = NULL;
	printf("* lost\n");
}

static void leave_endpoint(void)
{
	kubelet_stream_end(take(k.stream));
	grpc_client_close(take(k.endpoint));
	kubelet_calls_abandon(&k.calls);
}

/* Register. */

static void answer_register(const V1beta1__DevicePluginOptions *options)
{
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;

	kubelet_answer(take(k.registering), &empty.base);
	printf("* registered %s %d %d\n", k.resource, options->pre_start_required,
	       options->get_preferred_allocation_available);
	if (k.deaf)
		return;
	if (kubelet_stream_open(&k.loop, k.socket, "/v1beta1.DevicePlugin/ListAndWatch", on_devices,
				on_stream_ended, NULL, &k.stream) < 0)
		printf("* lost\n");
}

static void on_options(void *owner, enum grpc_status status, const char *message,
		       struct grpc_bytes answer)
{
	V1beta1__DevicePluginOptions *options =
		v1beta1__device_plugin_options__unpack(NULL, answer.size, answer.data);

	(void)owner;
	if (k.registering && status == GRPC_OK && options)
		answer_register(options);
	else if (k.registering)
		grpc_end(take(k.registering), GRPC_UNKNOWN, message);
	if (options)
		v1beta1__device_plugin_options__free_unpacked(options, NULL);
}

static void hold(struct grpc_call *call)
{
	check(k.held_count < HELD_MAX);
	grpc_call_keep(call, &k.held[k.held_count]);
	k.held[k.held_count++] = call;
	printf("* held\n");
}

static struct known *find_known(const char *resource)
{
	for (size_t i = 0; i < k.known_count; i++)
		if (strcmp(k.known[i].resource, resource) == 0)
			return &k.known[i];
	return NULL;
}

/* Where it is served. */
static void remember(const V1beta1__RegisterRequest *request)
{
	struct known *known = find_known(request->resource_name);

	check(known || k.known_count < KNOWN_MAX);
	if (!known)
		known = &k.known[k.known_count++];
	snprintf(known->resource, sizeof(known->resource), "%s", request->resource_name);
	snprintf(known->socket, sizeof(known->socket), "%s/device-plugins/%s", k.folder,
		 request->endpoint);
}

/* It is registered, and nobody listens to it for now. */
static void note(struct grpc_call *call, const V1beta1__RegisterRequest *request)
{
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;

	remember(request);
	printf("* known %s\n", request->resource_name);
	kubelet_answer(call, &empty.base);
}

/* From now on that one is listened to, and called. */
static void turn_to(const char *resource)
{
	const struct known *known = find_known(resource);
	struct fault why;

	snprintf(k.only, sizeof(k.only), "%s", resource);
	if (!known)
		return;
	leave_endpoint();
	snprintf(k.resource, sizeof(k.resource), "%s", resource);
	snprintf(k.socket, sizeof(k.socket), "%s", known->socket);
	check(grpc_client_open(&k.loop, k.socket, &k.endpoint, &why) == 0);
	if (kubelet_stream_open(&k.loop, k.socket, "/v1beta1.DevicePlugin/ListAndWatch", on_devices,
				on_stream_ended, NULL, &k.stream) < 0)
		printf("* lost\n");
}

static void on_register(struct grpc_call *call, struct grpc_bytes bytes, void *owner)
{
	V1beta1__RegisterRequest *request =
		v1beta1__register_request__unpack(NULL, bytes.size, bytes.data);
	struct grpc_asked *asked;
	struct fault why;

	(void)owner;
	check(request && strcmp(request->version, "v1beta1") == 0);
	if (k.hang) {
		hold(call);
	} else if (k.registration.code) {
		printf("* refused %s\n", request->resource_name);
		grpc_end(call, (enum grpc_status)k.registration.code, k.registration.text);
	} else if (*k.only && strcmp(k.only, request->resource_name) != 0) {
		note(call, request);
	} else if (k.registering) {
		grpc_end(call, GRPC_UNAVAILABLE, "one at a time");
	} else {
		leave_endpoint();
		remember(request);
		snprintf(k.resource, sizeof(k.resource), "%s", request->resource_name);
		snprintf(k.socket, sizeof(k.socket), "%s/device-plugins/%s", k.folder,
			 request->endpoint);
		check(grpc_client_open(&k.loop, k.socket, &k.endpoint, &why) == 0);
		k.registering = call;
		check(grpc_ask(k.endpoint, "/v1beta1.DevicePlugin/GetDevicePluginOptions",
			       (struct grpc_bytes){0}, 0, on_options, NULL, &asked) == 0);
	}
	v1beta1__register_request__free_unpacked(request, NULL);
}

static void on_register_gone(struct grpc_call *call, void *owner)
{
	(void)owner;
	for (size_t i = 0; i < k.held_count; i++)
		if (k.held[i] == call)
			k.held[i] = NULL;
	if (k.registering == call)
		k.registering = NULL;
}

/* pod-resources. */

static void on_list(struct grpc_call *call, struct grpc_bytes bytes, void *owner)
{
	static const uint8_t nonsense[] = "\xff\xff\xff\xff\x07no list";

	(void)bytes;
	(void)owner;
	k.asked++;
	if (k.hang) {
		hold(call);
	} else if (k.list.code) {
		grpc_end(call, (enum grpc_status)k.list.code, k.list.text);
	} else if (k.garbage) {
		check(grpc_send(call, (struct grpc_bytes){nonsense, sizeof(nonsense)}, false) == 0);
		grpc_end(call, GRPC_OK, NULL);
	} else {
		kubelet_pods_answer(&k.holders, k.resource, call);
	}
}

/* The sockets. */

static void serve(bool pods_too)
{
	static const struct grpc_method plugins[] = {
		{"/v1beta1.Registration/Register", on_register, on_register_gone}};
	static const struct grpc_method pods[] = {
		{"/v1.PodResourcesLister/List", on_list, on_register_gone}};
	char path[400];
	struct fault why;

	snprintf(path, sizeof(path), "%s/device-plugins/kubelet.sock", k.folder);
	check(grpc_server_open(&k.loop, path, 0600, plugins, ARRAY_SIZE(plugins), NULL, &k.plugins,
			       &why) == 0);
	if (!pods_too)
		return;
	snprintf(path, sizeof(path), "%s/pod-resources/kubelet.sock", k.folder);
	check(grpc_server_open(&k.loop, path, 0600, pods, ARRAY_SIZE(pods), NULL, &k.pods, &why) ==
	      0);
}

static void end_calls(void)
{
	while (k.held_count)
		if (k.held[--k.held_count])
			grpc_end(k.held[k.held_count], GRPC_UNAVAILABLE, "the kubelet goes");
	if (k.registering)
		grpc_end(take(k.registering), GRPC_UNAVAILABLE, "the kubelet goes");
}

static void go_away(void)
{
	end_calls();
	leave_endpoint();
	for (size_t i = 0; i < k.known_count; i++)
		grpc_client_close(take(k.known[i].beside));
	kubelet_calls_abandon(&k.calls_beside);
	grpc_server_close(take(k.plugins), NULL);
	grpc_server_close(take(k.pods), NULL);
}

static void remove_sockets(void)
{
	char folder[300], path[700];
	struct dirent *entry;
	struct stat about;
	DIR *files;

	snprintf(folder, sizeof(folder), "%s/device-plugins", k.folder);
	files = opendir(folder);
	check(files);
	while ((entry = readdir(files))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (lstat(path, &about) == 0 && S_ISSOCK(about.st_mode))
			unlink(path);
	}
	closedir(files);
}

static void refuse_so(char **words, size_t count)
{
	struct refusal *refusal;

	check(count >= 2);
	refusal = strcmp(words[0], "list") == 0 ? &k.list : &k.registration;
	refusal->code = atoi(words[1]);
	refusal->text[0] = '\0';
	for (size_t i = 2; i < count; i++)
		snprintf(refusal->text + strlen(refusal->text),
			 sizeof(refusal->text) - strlen(refusal->text), "%s%s", i > 2 ? " " : "",
			 words[i]);
}

static void show_devices(const char *tag)
{
	printf("%s", tag);
	for (size_t i = 0; k.devices && i < k.devices->n_devices; i++)
		printf(" %s=%s", k.devices->devices[i]->id, k.devices->devices[i]->health);
	printf("\n");
}

static void show_places(const char *tag)
{
	printf("%s", tag);
	for (size_t i = 0; k.devices && i < k.devices->n_devices; i++)
		for (size_t j = 0; k.devices->devices[i]->topology &&
				   j < k.devices->devices[i]->topology->n_nodes;
		     j++)
			printf(" %s=%d", k.devices->devices[i]->id,
			       (int)k.devices->devices[i]->topology->nodes[j]->id);
	printf("\n");
}

static void set_hang(bool on)
{
	k.hang = on;
	if (!on)
		end_calls();
}

/* Verbs that are done at once. */
static bool obey_at_once(const char *verb, char **words, size_t count)
{
	bool on = count && strcmp(words[0], "on") == 0;

	if (strcmp(verb, "pod") == 0)
		kubelet_pods_set(&k.holders, words, count);
	else if (strcmp(verb, "answer") == 0)
		refuse_so(words, count);
	else if (strcmp(verb, "garbage") == 0)
		k.garbage = on;
	else if (strcmp(verb, "deaf") == 0)
		k.deaf = on;
	else if (strcmp(verb, "hang") == 0)
		set_hang(on);
	else if (strcmp(verb, "away") == 0)
		go_away();
	else if (strcmp(verb, "back") == 0)
		serve(true);
	else if (strcmp(verb, "turn") == 0)
		turn_to(count ? words[0] : "");
	else if (strcmp(verb, "cut") == 0)
		kubelet_stream_end(k.stream);
	else
		return false;
	return true;
}

static bool call_beside(const char *tag, const char *verb, char **words, size_t count)
{
	struct kubelet_caller caller = {.calls = &k.calls_beside};
	struct known *known;
	struct fault why;

	if (strcmp(verb, "beside") != 0)
		return false;
	known = count >= 2 ? find_known(words[0]) : NULL;
	check(known && (known->beside ||
			grpc_client_open(&k.loop, known->socket, &known->beside, &why) == 0));
	caller.endpoint = known->beside;
	return kubelet_call(&caller, tag, words[1], words + 2, count - 2);
}

static void obey(const char *tag, const char *verb, char **words, size_t count)
{
	const struct kubelet_caller caller = {k.endpoint, &k.calls};

	if (kubelet_call(&caller, tag, verb, words, count) || call_beside(tag, verb, words, count))
		return;
	if (obey_at_once(verb, words, count)) {
		printf("%s ok\n", tag);
	} else if (strcmp(verb, "list") == 0) {
		show_devices(tag);
	} else if (strcmp(verb, "near") == 0) {
		show_places(tag);
	} else if (strcmp(verb, "asked") == 0) {
		printf("%s %zu\n", tag, k.asked);
	} else if (strcmp(verb, "restart") == 0) {
		go_away();
		remove_sockets();
		serve(true);
		printf("%s ok\n", tag);
	} else if (strcmp(verb, "replace") == 0) {
		end_calls();
		grpc_server_close(take(k.plugins), NULL);
		serve(false);
		printf("%s ok\n", tag);
	} else {
		check(!"a verb that is known");
	}
}

static void read_line(char *line)
{
	char *words[KUBELET_WORDS_MAX], *word;
	size_t count = 0;

	while ((word = strsep(&line, " ")))
		if (*word && count < KUBELET_WORDS_MAX)
			words[count++] = word;
	if (count >= 2)
		obey(words[0], words[1], words + 2, count - 2);
}

static void finish(void)
{
	loop_unwatch(&k.input, NULL);
	go_away();
	kubelet_pods_done(&k.holders);
}

static void on_input(struct loop_watch *watch, int events)
{
	ssize_t n;
	char *end;

	(void)events;
	if (k.room - k.have < 4096) {
		k.room = 2 * k.room + 8192;
		k.line = realloc(k.line, k.room);
		check(k.line);
	}
	n = read(watch->fd, k.line + k.have, k.room - k.have);
	if (n <= 0) {
		finish();
		return;
	}
	k.have += (size_t)n;
	while ((end = memchr(k.line, '\n', k.have))) {
		size_t used = (size_t)(end + 1 - k.line);

		*end = '\0';
		read_line(k.line);
		memmove(k.line, k.line + used, k.have - used);
		k.have -= used;
	}
}

int main(int argc, char **argv)
{
	check(argc == 2);
	snprintf(k.folder, sizeof(k.folder), "%s", argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	list_init(&k.calls);
	list_init(&k.calls_beside);
	check(loop_init(&k.loop) == 0);
	serve(true);
	check(loop_watch(&k.loop, &k.input, 0, LOOP_READ, on_input) == 0);
	printf("* ready\n");
	loop_run(&k.loop);
	loop_done(&k.loop);
	if (k.devices)
		v1beta1__list_and_watch_response__free_unpacked(k.devices, NULL);
	free(k.line);
	return 0;
}
