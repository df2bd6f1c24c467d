/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes that a user who may see one tenant sends to the page: no answer and no stream has a
 * word of the others'. The page is the whole one, with its server; the cluster's word is a fake's.
 *
 * Each input is what one connection sends. Time goes on by a second in between.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/happened.h"
#include "page/host.h"
#include "tests/no_boards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const struct page_entry mete_page;
uint64_t __real_loop_now_ns(void);
uint64_t __wrap_loop_now_ns(void);
void __real_loop_arm(struct loop_timer *timer, uint64_t delay_ns);
void __wrap_loop_arm(struct loop_timer *timer, uint64_t delay_ns);

/* Every name that the viewer must not see has this in it; no input has it but by chance, and
 * nothing that is sent comes back. */
#define SECRET "Xq7Zs"
#define TOKEN  "team-token"

enum { OWNER = 4711, MINE = 1, WITHIN, THEIRS, CLAIM, CUT, ROUNDS = 64, QUIET = 4, ROOM = 1 << 18 };

static struct loop loop;
static struct page_server *page;
static uint64_t ahead_ns;
static struct sockaddr_in at;

/* A question that is answered in the loop's next turn. */
struct right_asked {
	right_told *told;
	void *owner;
	int r;
	struct right_asked *next;
};
static struct right_asked *asked;

static void must(int condition)
{
	if (!condition)
		abort();
}

uint64_t __wrap_loop_now_ns(void)
{
	return __real_loop_now_ns() + ahead_ns;
}

/* What is to be soon is so in the loop's next turn: it takes no millisecond. */
void __wrap_loop_arm(struct loop_timer *timer, uint64_t delay_ns)
{
	__real_loop_arm(timer, delay_ns);
	if (!delay_ns)
		uv_timer_start(&timer->timer, timer->timer.timer_cb, 0, 0);
}

static int put(int r, right_told *told, void *owner, struct right_asked **ret_asked)
{
	struct right_asked *one = malloc(sizeof(*one));

	must(one != NULL);
	*one = (struct right_asked){told, owner, r, asked};
	*ret_asked = asked = one;
	return 0;
}

static int who(struct daemon *d, const char *token, const char *audience, right_told *told,
	       void *owner, struct right_asked **ret_asked)
{
	(void)d;
	(void)audience;
	return put(strcmp(token, TOKEN) == 0 ? 0 : RIGHT_NO, told, owner, ret_asked);
}

static int may(struct daemon *d, const char *user, const struct right *right, right_told *told,
	       void *owner, struct right_asked **ret_asked)
{
	bool yes = strcmp(right->resource, "pods") == 0 && strcmp(right->namespace, "a") == 0 &&
		   strcmp(right->name, "mine") == 0;

	(void)d;
	must(strcmp(user, "team") == 0);
	return put(yes ? 0 : RIGHT_NO, told, owner, ret_asked);
}

static void forget(struct daemon *d, struct right_asked *one)
{
	(void)d;
	for (struct right_asked **to = &asked; one && *to; to = &(*to)->next)
		if (*to == one) {
			*to = one->next;
			free(one);
			return;
		}
}

static bool answer_asked(void)
{
	struct right_asked *one = asked;

	if (!one)
		return false;
	asked = one->next;
	one->told(one->owner, one->r, "team", "team");
	free(one);
	return true;
}

static void add_tenant(void (*row)(void *owner, const struct wire_message *row), void *owner,
		       uint32_t id, uint32_t outer, const char *name)
{
	struct wire_message tenant = {.code = WIRE_tenant_row}, guest = {.code = WIRE_guest_row};

	tenant.tenant_row = (struct wire_tenant_row){
		.tenant = id, .outer = outer, .owner = OWNER, .behind = id == MINE ? THEIRS : 0};
	snprintf(tenant.tenant_row.name.text, sizeof(tenant.tenant_row.name.text), "%s", name);
	row(owner, &tenant);
	guest.guest_row = (struct wire_guest_row){.tenant = id, .pid = 100 + id};
	snprintf(guest.guest_row.program.text, sizeof(guest.guest_row.program.text), "%s",
		 id == MINE || id == WITHIN ? "train" : SECRET "-program");
	row(owner, &guest);
}

static void rows(struct daemon *d, void (*row)(void *owner, const struct wire_message *row),
		 void *owner)
{
	struct wire_message device = {.code = WIRE_device_row},
			    outside = {.code = WIRE_outside_row};
	char cut[WIRE_TEXT_MAX + 1];

	(void)d;
	device.device_row = (struct wire_device_row){.capacity = 1 << 30, .picker = 77};
	snprintf(device.device_row.name.text, sizeof(device.device_row.name.text), "GPU-1");
	row(owner, &device);
	add_tenant(row, owner, MINE, 0, "a/mine/main");
	add_tenant(row, owner, WITHIN, MINE, "part");
	add_tenant(row, owner, THEIRS, 0, "b/" SECRET "/main");
	add_tenant(row, owner, CLAIM, 0, "a/" SECRET "+mine");
	memset(cut, 'x', WIRE_TEXT_MAX);
	cut[WIRE_TEXT_MAX] = '\0';
	memcpy(cut, "a/" SECRET, strlen("a/" SECRET));
	add_tenant(row, owner, CUT, 0, cut);
	outside.outside_row = (struct wire_outside_row){.pid = 5, .user = OWNER};
	row(owner, &outside);
}

static void events(struct daemon *d, uint64_t after,
		   void (*event)(void *owner, const struct wire_event_row *event), void *owner)
{
	struct wire_event_row row = {.number = after, .kind = 9, .owner = OWNER};
	static const uint32_t others[] = {THEIRS, CLAIM, CUT, 0};

	(void)d;
	/* At each look there is news: of others, of a program that goes past mete, and of ours. */
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		row.number++;
		row.kind = others[i] ? 9 : HAPPENED_STRANGER;
		row.tenant = others[i];
		wire_set_text(&row.name, "b/" SECRET "/main");
		wire_set_text(&row.said, SECRET " was refused memory");
		event(owner, &row);
	}
	row.number++;
	row.kind = 9;
	row.tenant = MINE;
	wire_set_text(&row.name, "train");
	wire_set_text(&row.said, "it was refused memory");
	event(owner, &row);
}

static void freshen(struct daemon *d)
{
	(void)d;
}

static void tell(struct daemon *d, struct wire_admin_welcome *ret_said)
{
	(void)d;
	*ret_said = (struct wire_admin_welcome){.pid = 1};
	snprintf(ret_said->trouble.text, sizeof(ret_said->trouble.text), "GPU 0 is held by %s",
		 SECRET);
}

static void user(uid_t uid, char ret_name[PAGE_USER_MAX])
{
	snprintf(ret_name, PAGE_USER_MAX, "%u", uid);
}

static const struct page_host host = {.version = PAGE_VERSION,
				      .loop = &loop,
				      .owner = OWNER,
				      .page = "127.0.0.1:0",
				      .believed_ns = 30000000000,
				      .rows = rows,
				      .events = events,
				      .freshen = freshen,
				      .want_boards = want_boards,
				      .board = board,
				      .boards_since_ns = boards_since_ns,
				      .tell = tell,
				      .user = user,
				      .who = who,
				      .may = may,
				      .forget = forget};

/* The server's own socket: it is the only one that listens. */
static void find_port(void)
{
	socklen_t size = sizeof(int);

	for (int fd = 0; fd < 1024; fd++) {
		int listens = 0;

		size = sizeof(listens);
		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
			continue;
		size = sizeof(at);
		must(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
	}
	must(at.sin_port != 0);
}

static void begin(void)
{
	struct fault why;

	must(loop_init(&loop) == 0);
	must(mete_page.open(&host, &page, &why) == 0);
	find_port();
}

static int call(void)
{
	const struct linger at_once = {.l_onoff = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	must(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	must(connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 || errno == EINPROGRESS);
	return fd;
}

/* The bytes that have come by now; false: no more will. */
static bool hear(int fd, char *heard, size_t *size, bool *ret_any)
{
	ssize_t n = recv(fd, heard + *size, ROOM - *size, MSG_DONTWAIT);

	*ret_any = n > 0;
	if (n > 0)
		*size += (size_t)n;
	return n > 0 ? *size < ROOM : n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void check(const char *heard, size_t size)
{
	must(memmem(heard, size, SECRET, strlen(SECRET)) == NULL);
}

/* The answer to these bytes. */
static size_t talk(const uint8_t *data, size_t size, char heard[ROOM])
{
	size_t got = 0;
	bool any;
	int fd = call();

	ahead_ns += 1000000000;
	best_effort(send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0);
	for (int round = 0, quiet = 0; round < ROUNDS && quiet < QUIET; round++) {
		uv_run(&loop.uv, UV_RUN_NOWAIT);
		any = answer_asked();
		quiet = any ? 0 : quiet + 1;
		if (!hear(fd, heard, &got, &any))
			break;
		quiet = any ? 0 : quiet;
	}
	close(fd);
	/* So that the next one finds a seat. */
	for (int round = 0; round < QUIET; round++)
		uv_run(&loop.uv, UV_RUN_NOWAIT);
	return got;
}

/* Otherwise nothing that is not heard would say anything. */
static void must_hear(const char *path, const char *what)
{
	static char heard[ROOM];
	char said[256];
	size_t got;

	snprintf(said, sizeof(said),
		 "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, TOKEN);
	got = talk((const uint8_t *)said, strlen(said), heard);
	must(memmem(heard, got, what, strlen(what)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char heard[ROOM];

	if (!page) {
		begin();
		must_hear("/v1/node", "a/mine/main");
		must_hear("/v1/tenants/2", "\"part\"");
		must_hear("/v1/events", "a/mine/main");
	}
	check(heard, talk(data, size, heard));
	return 0;
}
