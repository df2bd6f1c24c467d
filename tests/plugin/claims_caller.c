/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claims_caller SOCKET: calls a DRA driver as the kubelet does. It obeys lines of its standard
 * input, and answers each call with a line "TAG MS ok CDI..." or "TAG MS error TEXT", where MS is
 * how long the call took, in milliseconds. Ends after its input, when all calls are answered.
 *
 *	TAG prepare NAMESPACE NAME UID
 *	TAG requests NAMESPACE NAME UID   the same; shown is which requests of the claim each
 *	                                  device is for
 *	TAG unprepare NAMESPACE NAME UID
 *	TAG forget                        the call is given up, and has no answer
 *	TAG registered                    at the driver's other socket: the kubelet knows it
 *	TAG health VERSION                the stream of the devices' health, until the input ends:
 *	                                  for each message a line "TAG 0
 *POOL/DEVICE=HEALTH:MESSAGE...", and "TAG 0 ended" when nothing follows
 */
#include <string.h>

#include "base/list.h"
#include "kube/grpc.h"
#include "kube/proto/dra.pb-c.h"
#include "kube/proto/drahealth.pb-c.h"
#include "kube/proto/pluginregistration.pb-c.h"
#include "tests/check.h"
#include "tests/plugin/kubelet_stream.h"

#define SERVICE "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"

enum { KUBELET_S = 45, STREAMS = 4 };

struct call {
	struct list link;
	char tag[32];
	void (*show)(struct grpc_bytes answer);
	uint64_t began_ns;
	struct grpc_asked *asked;
};

static struct {
	struct loop loop;
	struct loop_watch input;
	struct grpc_client *client;
	const char *socket;
	struct list calls;
	struct stream {
		char tag[32];
		struct kubelet_stream *stream; /* NULL: it has ended */
	} streams[STREAMS];
	bool told; /* the input has ended */
	char text[1 << 16];
	size_t have;
} k;

static void end_if_done(void)
{
	if (!k.told || !list_empty(&k.calls))
		return;
	grpc_client_close(take(k.client));
	for (size_t i = 0; i < STREAMS; i++)
		kubelet_stream_end(k.streams[i].stream);
}

static void free_call(struct call *call)
{
	list_remove(&call->link);
	free(call);
	end_if_done();
}

static void show_devices(struct grpc_bytes answer, bool requests)
{
	Dra__NodePrepareResourcesResponse *response =
		dra__node_prepare_resources_response__unpack(NULL, answer.size, answer.data);
	const Dra__NodePrepareResourceResponse *claim;

	check(response && response->n_claims == 1 && response->claims[0]->value);
	claim = response->claims[0]->value;
	if (*claim->error)
		printf("error %s", claim->error);
	else
		printf("ok");
	for (size_t i = 0; i < claim->n_devices; i++)
		printf(" %s", requests ? claim->devices[i]->request_names[0]
				       : claim->devices[i]->cdi_device_ids[0]);
	dra__node_prepare_resources_response__free_unpacked(response, NULL);
}

static void show_prepared(struct grpc_bytes answer)
{
	show_devices(answer, false);
}

static void show_requests(struct grpc_bytes answer)
{
	show_devices(answer, true);
}

static void show_unprepared(struct grpc_bytes answer)
{
	Dra__NodeUnprepareResourcesResponse *response =
		dra__node_unprepare_resources_response__unpack(NULL, answer.size, answer.data);
	const char *error;

	check(response && response->n_claims == 1 && response->claims[0]->value);
	error = response->claims[0]->value->error;
	printf("%s%s", *error ? "error " : "ok", error);
	dra__node_unprepare_resources_response__free_unpacked(response, NULL);
}

static void show_registered(struct grpc_bytes answer)
{
	(void)answer; /* it is empty */
	printf("ok");
}

static void on_answered(void *owner, enum grpc_status status, const char *message,
			struct grpc_bytes answer)
{
	struct call *call = owner;

	printf("%s %.3f ", call->tag, (double)(loop_now_ns() - call->began_ns) / 1e6);
	if (status != GRPC_OK)
		printf("error %s", message ? message : "refused");
	else
		call->show(answer);
	printf("\n");
	free_call(call);
}

static void make_call(const char *tag, const char *method, struct grpc_bytes request,
		      void (*show)(struct grpc_bytes answer))
{
	struct call *call = calloc(1, sizeof(*call));

	check(call);
	snprintf(call->tag, sizeof(call->tag), "%s", tag);
	call->show = show;
	call->began_ns = loop_now_ns();
	list_append(&k.calls, &call->link);
	check(grpc_ask(k.client, method, request, KUBELET_S * 1000000000ull, on_answered, call,
		       &call->asked) == 0);
}

/* Both requests are the same on the wire. */
static void call_for_claim(const char *tag, void (*show)(struct grpc_bytes answer), char *namespace,
			   char *name, char *uid)
{
	Dra__Claim claim = DRA__CLAIM__INIT, *list[] = {&claim};
	Dra__NodePrepareResourcesRequest request = DRA__NODE_PREPARE_RESOURCES_REQUEST__INIT;
	uint8_t bytes[1024];
	size_t size;

	claim.namespace_ = namespace;
	claim.name = name;
	claim.uid = uid;
	request.claims = list;
	request.n_claims = 1;
	check(dra__node_prepare_resources_request__get_packed_size(&request) <= sizeof(bytes));
	size = dra__node_prepare_resources_request__pack(&request, bytes);
	make_call(tag,
		  show == show_unprepared ? SERVICE "NodeUnprepareResources"
					  : SERVICE "NodePrepareResources",
		  (struct grpc_bytes){bytes, size}, show);
}

static void call_registered(const char *tag)
{
	Pluginregistration__RegistrationStatus status =
		PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;
	uint8_t bytes[16];

	status.plugin_registered = true;
	check(pluginregistration__registration_status__get_packed_size(&status) <= sizeof(bytes));
	make_call(tag, "/pluginregistration.Registration/NotifyRegistrationStatus",
		  (struct grpc_bytes){
			  bytes, pluginregistration__registration_status__pack(&status, bytes)},
		  show_registered);
}

static void on_health(void *owner, struct grpc_bytes message)
{
	static const char *const words[] = {"unknown", "healthy", "unhealthy"};
	const struct stream *stream = owner;
	Drahealth__NodeWatchResourcesResponse *response =
		drahealth__node_watch_resources_response__unpack(NULL, message.size, message.data);

	check(response);
	printf("%s 0", stream->tag);
	for (size_t i = 0; i < response->n_devices; i++) {
		const Drahealth__DeviceHealth *health = response->devices[i];

		check(health->device && health->health <= 2 && health->last_updated_time > 0 &&
		      health->health_check_timeout_seconds > 0);
		printf(" %s/%s=%s:%s", health->device->pool_name, health->device->device_name,
		       words[health->health], health->message);
	}
	printf("\n");
	drahealth__node_watch_resources_response__free_unpacked(response, NULL);
}

static void on_health_ended(void *owner, struct kubelet_stream *ended)
{
	struct stream *stream = owner;

	check(stream->stream == ended);
	stream->stream = NULL;
	printf("%s 0 ended\n", stream->tag);
}

static void watch_health(const char *tag, const char *version)
{
	char path[80];

	snprintf(path, sizeof(path), "/%s.DRAResourceHealth/NodeWatchResources", version);
	for (size_t i = 0; i < STREAMS; i++) {
		struct stream *stream = &k.streams[i];

		if (stream->stream)
			continue;
		snprintf(stream->tag, sizeof(stream->tag), "%s", tag);
		check(kubelet_stream_open(&k.loop, k.socket, path, on_health, on_health_ended,
					  stream, &stream->stream) == 0);
		return;
	}
	check(!"a stream too many");
}

static void give_up(const char *tag)
{
	list_for_each(link, &k.calls)
	{
		struct call *call = list_entry(link, struct call, link);

		if (strcmp(call->tag, tag) != 0)
			continue;
		grpc_forget(call->asked);
		free_call(call);
		return;
	}
	check(!"a call that is under way");
}

static void obey(char *line)
{
	static const struct {
		const char *word;
		void (*show)(struct grpc_bytes answer);
	} ways[] = {{"prepare", show_prepared},
		    {"requests", show_requests},
		    {"unprepare", show_unprepared}};
	char *words[5] = {NULL};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = strsep(&line, " ");
	check(words[1]);
	if (strcmp(words[1], "forget") == 0) {
		give_up(words[0]);
		return;
	}
	if (strcmp(words[1], "registered") == 0) {
		call_registered(words[0]);
		return;
	}
	if (strcmp(words[1], "health") == 0) {
		check(words[2]);
		watch_health(words[0], words[2]);
		return;
	}
	check(words[4]);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (strcmp(words[1], ways[i].word) == 0) {
			call_for_claim(words[0], ways[i].show, words[2], words[3], words[4]);
			return;
		}
	check(!"a call of the kubelet");
}

static void on_input(struct loop_watch *watch, int events)
{
	ssize_t n = read(watch->fd, k.text + k.have, sizeof(k.text) - k.have);
	char *line = k.text, *end;

	(void)events;
	if (n <= 0) {
		loop_unwatch(watch, NULL);
		k.told = true;
		end_if_done();
		return;
	}
	k.have += (size_t)n;
	while ((end = memchr(line, '\n', k.have - (size_t)(line - k.text)))) {
		*end = '\0';
		obey(line);
		line = end + 1;
	}
	k.have -= (size_t)(line - k.text);
	check(k.have < sizeof(k.text));
	memmove(k.text, line, k.have);
}

int main(int argc, char **argv)
{
	struct fault why;

	check(argc == 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	k.socket = argv[1];
	list_init(&k.calls);
	check(loop_init(&k.loop) == 0);
	check(grpc_client_open(&k.loop, argv[1], &k.client, &why) == 0);
	check(loop_watch(&k.loop, &k.input, 0, LOOP_READ, on_input) == 0);
	loop_run(&k.loop);
	loop_done(&k.loop);
	return 0;
}
