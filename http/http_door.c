/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_door.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/hash.h"
#include "http/http_tls.h"

static const uint64_t second_ns = 1000000000;

/* A flood of connections is accepted in portions, as the loop has others to serve. */
enum { AT_ONCE = 32, PAUSE_MS = 100 };

/* What an event of the epoll descriptor is about, beside a place at the door. */
enum { OF_LISTENER = HTTP_DOOR_MOST, OF_INNER };

#define ANSWER(status, more, text, size)                                                           \
	"HTTP/1.1 " status "\r\nContent-Type: text/plain; charset=utf-8\r\n"                       \
	"Content-Length: " size "\r\n" more "Connection: close\r\n\r\n" text

const char http_door_full[] =
	ANSWER("503 Service Unavailable", "Retry-After: 1\r\n", "too many connections\n", "21");
static const char not_tls[] =
	ANSWER("400 Bad Request", "", "this address speaks TLS: use https://\n", "38");
const char http_door_late[] =
	ANSWER("408 Request Timeout", "", "the request took too long to come\n", "34");

void http_turn_away(int fd, const char *answer)
{
	char rest[4096];

	best_effort(send(fd, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL));
	shutdown(fd, SHUT_RDWR);
	/* Closing with unread bytes would hide the answer behind an error. */
	for (int i = 0; i < 8 && recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++) {
	}
	close(fd);
}

int http_user_of(int fd, uid_t *ret_uid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return -errno;
	*ret_uid = peer.uid;
	return 0;
}

struct http_host http_host_of(int fd, const struct sockaddr_storage *name)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)name;
	const struct sockaddr_in *four = (const struct sockaddr_in *)name;
	struct http_host host = {{0}};

	if (name->ss_family == AF_INET) {
		host.byte[10] = host.byte[11] = 0xff;
		memcpy(host.byte + 12, &four->sin_addr, 4);
	} else if (name->ss_family == AF_INET6) {
		bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);

		memcpy(host.byte, &six->sin6_addr, mapped ? 16 : 8);
	} else {
		uid_t uid = 0;

		if (http_user_of(fd, &uid) == 0)
			memcpy(host.byte, &uid, sizeof(uid));
	}
	return host;
}

struct http_host http_host_named(const char *name)
{
	/* A value that no address has: an IPv6 address has a second half of zero, others a first
	 * half of zero. */
	struct http_host host = {.byte = {[8] = 'n', 'a', 'm', 'e'}};
	uint64_t hash = hash_text(HASH_BEGIN, name);

	memcpy(host.byte, &hash, sizeof(hash));
	return host;
}

bool http_host_same(const struct http_host *a, const struct http_host *b)
{
	return memcmp(a->byte, b->byte, sizeof(a->byte)) == 0;
}

uint32_t http_host_count(const void *table, size_t n, http_host_at *at,
			 const struct http_host *host)
{
	uint32_t count = 0;

	for (size_t i = 0; i < n; i++) {
		const struct http_host *other = at(table, i);

		count += other && http_host_same(other, host);
	}
	return count;
}

const struct http_host *http_host_largest(const void *table, size_t n, http_host_at *at)
{
	const struct http_host *largest = NULL;
	uint32_t most = 0;

	for (size_t i = 0; i < n; i++) {
		const struct http_host *host = at(table, i);
		uint32_t count = host ? http_host_count(table, n, at, host) : 0;

		if (count > most) {
			most = count;
			largest = host;
		}
	}
	return largest;
}

bool http_head_is_whole(const char *bytes, size_t size)
{
	while (size && (*bytes == '\r' || *bytes == '\n')) {
		bytes++;
		size--;
	}
	return memmem(bytes, size, "\n\r\n", 3) || memmem(bytes, size, "\n\n", 2);
}

static int add(struct http_door *door, int fd, uint32_t events, uint32_t what)
{
	struct epoll_event event = {.events = events, .data.u32 = what};

	return epoll_ctl(door->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void http_door_init(struct http_door *door)
{
	*door = (struct http_door){.listener = -1, .epoll = -1};
	for (size_t i = 0; i < HTTP_DOOR_MOST; i++)
		door->caller[i].fd = -1;
}

int http_door_open(struct http_door *door, int listener, int inner)
{
	int r;

	door->listener = listener;
	door->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (door->epoll < 0)
		return -errno;
	r = add(door, listener, EPOLLIN, OF_LISTENER);
	return r == 0 ? add(door, inner, EPOLLIN, OF_INNER) : r;
}

/* A client that waits for TLS understands none of the answers. */
static void turn_away(const struct http_door *door, struct http_caller *caller, const char *answer)
{
	http_turn_away(caller->fd, door->tls ? "" : answer);
	caller->fd = -1;
}

void http_door_close(struct http_door *door)
{
	for (size_t i = 0; i < HTTP_DOOR_MOST; i++)
		if (door->caller[i].fd >= 0)
			close(door->caller[i].fd);
	if (door->epoll >= 0)
		close(door->epoll);
	door->epoll = -1;
}

static const struct http_host *host_at(const void *table, size_t i)
{
	const struct http_door *door = table;

	return door->caller[i].fd >= 0 ? &door->caller[i].host : NULL;
}

static struct http_caller *longest(struct http_door *door, const struct http_host *host)
{
	struct http_caller *found = NULL;

	for (size_t i = 0; i < HTTP_DOOR_MOST; i++) {
		struct http_caller *caller = &door->caller[i];

		if (caller->fd >= 0 && http_host_same(&caller->host, host) &&
		    (!found || caller->since_ns < found->since_ns))
			found = caller;
	}
	return found;
}

static struct http_caller *place_for(struct http_door *door, const struct http_host *host)
{
	struct http_caller *place = NULL;

	if (http_host_count(door, HTTP_DOOR_MOST, host_at, host) < HTTP_DOOR_EACH) {
		for (size_t i = 0; i < HTTP_DOOR_MOST && !place; i++)
			if (door->caller[i].fd < 0)
				place = &door->caller[i];
		if (place)
			return place;
		/* All places are taken: takes one from the host that has the most. */
		host = http_host_largest(door, HTTP_DOOR_MOST, host_at);
	}
	place = longest(door, host);
	turn_away(door, place, http_door_full);
	return place;
}

/* Is the head complete? -EAGAIN: not yet; other errors: it never will be. A connection whose head
 * is too long is let in as well, and gets an HTTP answer. */
static int peek_at_head(const struct http_door *door, int fd, bool ended)
{
	char head[HTTP_HEAD_MAX];
	ssize_t n = recv(fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (door->tls && n) {
		int r = http_tls_begins((const unsigned char *)head, (size_t)n);

		if (r != -EAGAIN)
			return r;
	}
	if (n == HTTP_HEAD_MAX || (!door->tls && http_head_is_whole(head, (size_t)n)))
		return 0;
	return ended || n == 0 ? -ECONNRESET : -EAGAIN;
}

/* Acts on the result of peek_at_head(). */
static void admit(struct http_door *door, const struct http_caller *caller, int r)
{
	if (r == 0)
		door->enter(door->owner, caller);
	else if (r == -EPROTO)
		http_turn_away(caller->fd, not_tls);
	else
		close(caller->fd);
}

static void on_caller(struct http_door *door, struct http_caller *caller, uint32_t events)
{
	struct http_caller leaving = *caller;
	int r;

	if (caller->fd < 0)
		return;
	r = peek_at_head(door, caller->fd, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
	if (r == -EAGAIN)
		return;
	epoll_ctl(door->epoll, EPOLL_CTL_DEL, caller->fd, NULL);
	caller->fd = -1;
	admit(door, &leaving, r);
}

static int accept_one(struct http_door *door, uint64_t now_ns)
{
	struct http_caller caller = {.since_ns = now_ns, .name_size = sizeof(caller.name)};
	struct http_caller *place;
	int r;

	caller.fd = accept4(door->listener, (struct sockaddr *)&caller.name, &caller.name_size,
			    SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (caller.fd < 0)
		return -errno;
	caller.host = http_host_of(caller.fd, &caller.name);
	r = peek_at_head(door, caller.fd, false);
	if (r != -EAGAIN) {
		admit(door, &caller, r);
		return 0;
	}
	place = place_for(door, &caller.host);
	*place = caller;
	/* Edges only, as an incomplete head stays readable. */
	if (add(door, caller.fd, EPOLLIN | EPOLLRDHUP | EPOLLET, (uint32_t)(place - door->caller)) <
	    0)
		turn_away(door, place, http_door_full);
	return 0;
}

static void open_again(struct http_door *door, uint32_t events, uint64_t until_ns)
{
	struct epoll_event event = {.events = events, .data.u32 = OF_LISTENER};

	epoll_ctl(door->epoll, EPOLL_CTL_MOD, door->listener, &event);
	door->shut_until_ns = until_ns;
}

static void accept_some(struct http_door *door, uint64_t now_ns)
{
	int r = 0;

	for (int i = 0; i < AT_ONCE && (r == 0 || r == -ECONNABORTED || r == -EINTR); i++)
		r = accept_one(door, now_ns);
	/* The listener stays readable meanwhile. */
	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -ENOBUFS)
		open_again(door, 0, now_ns + PAUSE_MS * 1000000ull);
}

static uint64_t late_ns(const struct http_caller *caller)
{
	return caller->since_ns + HTTP_HEAD_S * second_ns;
}

void http_door_serve(struct http_door *door, uint64_t now_ns)
{
	struct epoll_event event[HTTP_DOOR_MOST];
	int n = epoll_wait(door->epoll, event, ARRAY_SIZE(event), 0);
	bool comes = door->shut_until_ns && now_ns >= door->shut_until_ns;

	if (comes)
		open_again(door, EPOLLIN, 0);
	for (int i = 0; i < n; i++) {
		if (event[i].data.u32 < HTTP_DOOR_MOST)
			on_caller(door, &door->caller[event[i].data.u32], event[i].events);
		comes |= event[i].data.u32 == OF_LISTENER;
	}
	for (size_t i = 0; i < HTTP_DOOR_MOST; i++)
		if (door->caller[i].fd >= 0 && now_ns >= late_ns(&door->caller[i]))
			turn_away(door, &door->caller[i], http_door_late);
	/* After the events, as a place may be taken by a new connection. */
	if (comes)
		accept_some(door, now_ns);
}

uint64_t http_door_due(const struct http_door *door)
{
	uint64_t due = door->shut_until_ns ? door->shut_until_ns : UINT64_MAX;

	for (size_t i = 0; i < HTTP_DOOR_MOST; i++)
		if (door->caller[i].fd >= 0 && late_ns(&door->caller[i]) < due)
			due = late_ns(&door->caller[i]);
	return due;
}
