/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api.h"

#include "kube/api_inside.h"

/* A socket of libcurl. The loop owns it: libcurl releases it, and the close callback frees it. */
struct api_socket {
	struct loop_watch watch;
	struct api *api;
	int events;
};

static const uint64_t second_ns = 1000000000;

/* Reports the transfers that have moved, one at a time: moved() may end any of them, even the
 * whole client (whose memory stays until the loop's next iteration). */
static void pump(struct api *api)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(api->multi, &left))) {
		struct api_transfer *transfer = NULL;
		curl_off_t later = 0;
		long status = 0;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
		curl_easy_getinfo(message->easy_handle, CURLINFO_RETRY_AFTER, &later);
		curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
		transfer->over = true;
		transfer->status = (int)status;
		transfer->result = message->data.result;
		if (later > 0)
			transfer->later_ns = (uint64_t)(later < 3600 ? later : 3600) * second_ns;
		if (!list_linked(&transfer->ready))
			list_append(&api->ready, &transfer->ready);
	}
	while (!api->closed && !list_empty(&api->ready)) {
		struct api_transfer *transfer =
			list_entry(api->ready.next, struct api_transfer, ready);

		list_remove(&transfer->ready);
		transfer->moved(transfer);
	}
}

static void on_socket(struct loop_watch *watch, int events)
{
	struct api_socket *socket = container_of(watch, struct api_socket, watch);
	struct api *api = socket->api;
	int happened = (events & LOOP_READ ? CURL_CSELECT_IN : 0) |
		       (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0);
	int running;

	curl_multi_socket_action(api->multi, watch->fd, happened, &running);
	/* libuv stops watching after an error, but libcurl may have more to read. */
	loop_rewatch(watch, socket->events);
	pump(api);
}

static void on_socket_closed(struct loop_watch *watch)
{
	free(container_of(watch, struct api_socket, watch));
}

static int make_socket(struct api *api, int fd, int events)
{
	struct api_socket *socket = calloc(1, sizeof(*socket));

	if (!socket)
		return -ENOMEM;
	socket->api = api;
	socket->events = events;
	if (loop_watch(api->loop, &socket->watch, fd, events, on_socket) < 0) {
		free(socket);
		return -ENOMEM;
	}
	curl_multi_assign(api->multi, fd, socket);
	return 0;
}

static int on_wanted(CURL *easy, curl_socket_t fd, int what, void *context, void *kept)
{
	struct api *api = context;
	struct api_socket *socket = kept;
	int events =
		(what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (socket) {
			curl_multi_assign(api->multi, fd, NULL);
			loop_unwatch(&socket->watch, on_socket_closed);
		}
	} else if (socket) {
		socket->events = events;
		loop_rewatch(&socket->watch, events);
	} else {
		/* If it cannot be watched for lack of memory, its transfer ends by its time-out.
		 * Returning a failure would make libcurl abort all transfers. */
		best_effort(make_socket(api, fd, events));
	}
	return 0;
}

static void on_time(struct loop_timer *timer)
{
	struct api *api = container_of(timer, struct api, timer);
	int running;

	curl_multi_socket_action(api->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	pump(api);
}

static int on_time_wanted(CURLM *multi, long delay_ms, void *context)
{
	struct api *api = context;

	(void)multi;
	if (delay_ms < 0)
		loop_disarm(&api->timer);
	else
		loop_arm(&api->timer, (uint64_t)delay_ms * 1000000);
	return 0;
}

static void on_timer_closed(struct loop_timer *timer)
{
	free(container_of(timer, struct api, timer));
}

static int open_multi(struct api *api)
{
	api->multi = curl_multi_init();
	if (!api->multi)
		return -ENOMEM;
	curl_multi_setopt(api->multi, CURLMOPT_SOCKETFUNCTION, on_wanted);
	curl_multi_setopt(api->multi, CURLMOPT_SOCKETDATA, api);
	curl_multi_setopt(api->multi, CURLMOPT_TIMERFUNCTION, on_time_wanted);
	curl_multi_setopt(api->multi, CURLMOPT_TIMERDATA, api);
	curl_multi_setopt(api->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	curl_multi_setopt(api->multi, CURLMOPT_MAXCONNECTS, 16L);
	return 0;
}

int api_open(struct loop *loop, const struct api_place *place, struct api **ret_api,
	     struct fault *why)
{
	struct api *api = calloc(1, sizeof(*api));
	int r;

	if (!api || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(api);
		return fault_set(why, -ENOMEM, "out of memory");
	}
	api->loop = loop;
	api->pace = (struct api_pace){
		.pause_least_ns = second_ns,
		.pause_most_ns = 30 * second_ns,
		.connect_ns = 10 * second_ns,
		.answer_ns = 30 * second_ns,
		.silence_ns = 150 * second_ns,
		.hasty_ns = second_ns,
		.watch_s = 300,
		.page = 500,
		.most_bytes = 16 << 20,
	};
	list_init(&api->ready);
	r = api_site_open(place, &api->site, why);
	if (r == 0) {
		r = open_multi(api);
		if (r == 0)
			r = loop_timer_init(loop, &api->timer, on_time);
		if (r < 0)
			fault_set(why, r, "out of memory");
	}
	if (r < 0) {
		api_site_close(api->site);
		curl_multi_cleanup(api->multi);
		curl_global_cleanup();
		free(api);
		return r;
	}
	*ret_api = api;
	return 0;
}

void api_close(struct api *api)
{
	if (!api)
		return;
	api->closed = true;
	curl_multi_cleanup(api->multi); /* calls on_wanted(), which releases its sockets */
	curl_easy_cleanup(api->spare);
	curl_global_cleanup();
	api_site_close(api->site);
	loop_timer_close(&api->timer, on_timer_closed);
}
