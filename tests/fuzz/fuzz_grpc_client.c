/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes from a server: each call is answered once at most, one that is not answered was never
 * sent or waits to be made once more; only GRPC_OK brings an answer; each sentence is fit to be
 * shown.
 */
#include "base/text.h"
#include "tests/fuzz/grpc_fuzz.h"

enum { CALLS = 4 };

struct one {
	struct grpc_asked *asked;
	unsigned answered, index;
};

static struct {
	struct loop loop;
	struct grpc_client *client;
	struct one ones[CALLS];
	unsigned sum;
	int ready;
} f;

static void on_answered(void *owner, enum grpc_status status, const char *message,
			struct grpc_bytes answer)
{
	struct one *one = owner;
	char plain[GRPC_MESSAGE_MAX + 1];

	must(one->answered++ == 0 && one->asked);
	one->asked = NULL;
	must(status >= GRPC_OK && status <= 16);
	must(strlen(message) <= GRPC_MESSAGE_MAX);
	strcpy(plain, message);
	text_make_plain(plain);
	must(strcmp(plain, message) == 0);
	must(status == GRPC_OK || answer.size == 0);
	must(answer.size <= GRPC_ANSWER_MAX);
	/* The bytes are really there: a sanitizer watches. */
	for (size_t i = 0; i < answer.size; i++)
		f.sum += answer.data[i];
	if (one->index == 3 && f.ones[2].asked) {
		grpc_forget(f.ones[2].asked);
		f.ones[2].asked = NULL;
	}
}

static void ask_all(void)
{
	static const uint8_t request[100] = "request";

	for (unsigned i = 0; i < CALLS; i++) {
		f.ones[i] = (struct one){.index = i};
		must(grpc_ask(f.client, "/t/Echo", (struct grpc_bytes){request, i * 25},
			      i == 1 ? 3600000000000 : 0, on_answered, &f.ones[i],
			      &f.ones[i].asked) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_wire wire;
	struct fault why;
	size_t waiting = 0;

	if (!f.ready)
		must(loop_init(&f.loop) == 0);
	f.ready = 1;
	must(grpc_client_open(&f.loop, "/nowhere/mete-fuzz-grpc", &f.client, &why) == 0);
	must(grpc_client_take(f.client, fuzz_pair(&wire, &f.loop, 24)) == 0);
	ask_all();
	go_round(&f.loop, 1);
	fuzz_say(&wire, data, size);
	list_for_each(link, &f.client->waiting) waiting +=
		list_entry(link, struct grpc_asked, link)->again;
	for (unsigned i = 0; i < CALLS; i++)
		waiting -= f.ones[i].asked != NULL;
	must(waiting == 0);
	must(list_empty(&f.client->dialled) && !f.client->current);
	grpc_client_close(take(f.client));
	go_round(&f.loop, 2);
	return 0;
}
