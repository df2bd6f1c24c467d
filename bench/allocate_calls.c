/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage: allocate_calls SOCKET COUNT ID...: asks a device plugin to Allocate the ids COUNT times,
 * one call after the other on one connection as the kubelet does, and prints the percentiles of
 * what a call took.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/grpc.h"
#include "kube/proto/deviceplugin.pb-c.h"

struct run {
	struct loop loop;
	struct grpc_client *client;
	struct grpc_asked *asked;
	uint8_t request[4096];
	size_t size;
	uint64_t began_ns;
	uint64_t *took_ns;
	size_t count, done;
	int failed;
};

static void ask(struct run *run);

static void on_answered(void *owner, enum grpc_status status, const char *message,
			struct grpc_bytes answer)
{
	struct run *run = owner;

	run->took_ns[run->done++] = loop_now_ns() - run->began_ns;
	if (status != GRPC_OK || !answer.size) {
		fprintf(stderr, "Allocate: status %d: %s\n", (int)status, message ? message : "");
		run->failed = 1;
	}
	if (run->failed || run->done == run->count)
		grpc_client_close(take(run->client));
	else
		ask(run);
}

static void ask(struct run *run)
{
	run->began_ns = loop_now_ns();
	if (grpc_ask(run->client, "/v1beta1.DevicePlugin/Allocate",
		     (struct grpc_bytes){run->request, run->size}, 0, on_answered, run,
		     &run->asked) < 0)
		abort();
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void pack(struct run *run, char **ids, size_t count)
{
	V1beta1__ContainerAllocateRequest row = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT,
					  *rows[] = {&row};
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;

	row.devices_ids = ids;
	row.n_devices_ids = count;
	request.container_requests = rows;
	request.n_container_requests = 1;
	run->size = v1beta1__allocate_request__get_packed_size(&request);
	if (run->size > sizeof(run->request))
		abort();
	v1beta1__allocate_request__pack(&request, run->request);
}

int main(int argc, char **argv)
{
	static struct run run;
	size_t median, p99;
	struct fault why;

	if (argc < 4) {
		fputs("usage: allocate_calls SOCKET COUNT ID...\n", stderr);
		return 2;
	}
	run.count = strtoul(argv[2], NULL, 10);
	run.took_ns = calloc(run.count + 1, sizeof(*run.took_ns));
	if (!run.count || !run.took_ns || loop_init(&run.loop) < 0)
		return 2;
	pack(&run, argv + 3, (size_t)argc - 3);
	if (grpc_client_open(&run.loop, argv[1], &run.client, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	ask(&run);
	loop_run(&run.loop);
	loop_done(&run.loop);
	if (run.failed)
		return 1;
	qsort(run.took_ns, run.count, sizeof(*run.took_ns), by_size);
	median = run.count / 2;
	p99 = run.count - 1 - run.count / 100;
	printf("%zu calls: median %.1f us, p99 %.1f us, longest %.1f us\n", run.count,
	       (double)run.took_ns[median] / 1e3, (double)run.took_ns[p99] / 1e3,
	       (double)run.took_ns[run.count - 1] / 1e3);
	printf("figure: allocate_p99_ms %.3f ms\n", (double)run.took_ns[p99] / 1e6);
	free(run.took_ns);
	return 0;
}
