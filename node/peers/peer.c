/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/peer.h"

#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/text.h"
#include "node/peers/flow.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

static const uint64_t second_ns = 1000000000;

struct peer_frame {
	struct peer_frame *next;
	size_t size;
	uint8_t bytes[];
};

/* Without SO_PEERPIDFD, the pid may have been reused before pidfd_open(). In that case the socket
 * has been hung up, because the peer was its only holder. */
static int open_pidfd(int fd, pid_t pid)
{
	struct pollfd hangup = {.fd = fd, .events = POLLRDHUP};
	int pidfd;
	socklen_t size = sizeof(pidfd);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		return pidfd;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return -errno;
	if (poll(&hangup, 1, 0) != 0) {
		close(pidfd);
		return -ESRCH;
	}
	return pidfd;
}

int peer_identify(int fd, struct peer_identity *ret_identity)
{
	struct ucred who;
	socklen_t size = sizeof(who);
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
		return -errno;
	if (who.pid <= 0)
		return -ESRCH; /* from a process namespace that we cannot see */
	pidfd = open_pidfd(fd, who.pid);
	if (pidfd < 0)
		return pidfd;
	*ret_identity = (struct peer_identity){who.pid, who.uid, pidfd};
	return 0;
}

/* The memory that a waiting frame takes, including malloc's overhead. */
static size_t cost_of(const struct peer_frame *frame)
{
	return sizeof(*frame) + frame->size + 2 * sizeof(void *);
}

static void note_backlog(struct peer *peer, size_t before)
{
	struct flow *flow = peer->item.flow;

	flow->backlog_bytes += peer->backlog_bytes - before;
	flow->flows->backlog_bytes += peer->backlog_bytes - before;
	if (!peer->backlog_bytes)
		list_remove(&peer->debtor);
	else if (!list_linked(&peer->debtor))
		list_append(&flow->debtors, &peer->debtor);
	if (!flow->backlog_bytes)
		list_remove(&flow->debtor);
	else if (!list_linked(&flow->debtor))
		list_append(&flow->flows->debtors, &flow->debtor);
	if (before && !peer->backlog_bytes)
		flows_gave_back(flow->flows);
}

static void drop_backlog(struct peer *peer)
{
	size_t before = peer->backlog_bytes;

	while (peer->first) {
		struct peer_frame *frame = peer->first;

		peer->first = frame->next;
		free(frame);
	}
	peer->last = &peer->first;
	peer->backlog_bytes = 0;
	note_backlog(peer, before);
}

static void on_watch_closed(struct loop_watch *watch)
{
	struct peer *peer = container_of(watch, struct peer, watch);

	if (peer->burdened)
		discard_close(peer->discarder, watch->fd);
	else
		close(watch->fd);
	peer->class->freed(peer);
}

void peer_close(struct peer *peer)
{
	if (peer->closing)
		return;
	peer->closing = true;
	flow_forget(&peer->item);
	flow_go_on(&peer->pause);
	drop_backlog(peer);
	/* Tells the other end at once, not after the loop's iteration. */
	peer->burdened = !discard_rest(peer->watch.fd);
	loop_unwatch(&peer->watch, on_watch_closed);
}

static void end(struct peer *peer, const char *reason)
{
	if (peer->closing)
		return;
	peer_close(peer);
	peer->class->gone(peer, reason);
}

static void watch_again(struct peer *peer)
{
	loop_rewatch(&peer->watch, (peer->paused || peer->hushed ? 0 : LOOP_READ) |
					   (peer->first ? LOOP_WRITE : 0));
}

/* The sender may be in the middle of something, perhaps of a list that this peer is in: the peer is
 * ended later, from the loop. */
static void end_soon(struct peer *peer, const char *reason)
{
	if (peer->closing || peer->failed)
		return;
	peer->failed = true;
	peer->reason = reason;
	drop_backlog(peer);
	peer->paused = true;
	watch_again(peer);
	flow_pause(peer->item.flow->flows, &peer->pause, 0);
}

static void on_pause_over(struct flow_pause *pause)
{
	struct peer *peer = container_of(pause, struct peer, pause);

	peer->paused = false;
	if (peer->failed)
		end(peer, peer->reason);
	if (!peer->closing)
		watch_again(peer);
}

/* Returns 0 if the peer has used up what it may send for now. */
static int may_read(struct peer *peer)
{
	uint64_t now = loop_now_ns();
	uint64_t earned = (now - peer->filled_ns) / (second_ns / PEER_RATE);

	if (earned) {
		peer->tokens =
			peer->tokens + earned < PEER_BURST ? peer->tokens + earned : PEER_BURST;
		peer->filled_ns = now;
	}
	if (peer->tokens && flow_pay(peer->item.flow, 1)) {
		peer->tokens--;
		return 1;
	}
	peer->paused = true;
	watch_again(peer);
	flow_pause(peer->item.flow->flows, &peer->pause, 20 * second_ns / 1000);
	return 0;
}

static void hear(struct peer *peer, const uint8_t *frame, size_t size)
{
	struct wire_message message;
	int r = wire_decode(frame, size, &message);

	if (r == WIRE_UNKNOWN)
		peer->class->unknown(peer, message.id, message.code);
	else if (r != 0)
		end(peer, "sent something that is not a message of this protocol");
	else
		peer->class->message(peer, &message);
}

/* Whether the next message has been looked at already. */
static bool take_seen(struct peer *peer)
{
	bool seen = peer->seen;

	peer->seen = false;
	return seen;
}

/* Reads one message. Returns false if there is none, or if none may be read now. */
static bool read_one(struct peer *peer)
{
	uint8_t frame[WIRE_FRAME_MAX];
	struct iovec part = {frame, sizeof(frame)};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;
	int r;

	if (peer->closing || peer->failed || peer->paused || !may_read(peer))
		return false;
	r = take_seen(peer) ? 0 : discard_look(peer->watch.fd);
	if (r == DISCARD_BURDENED || (r < 0 && r != -EAGAIN))
		end(peer, r < 0 ? NULL : "sent descriptors");
	/* One that has come since then has not been looked at. */
	peer->tokens += r == -EAGAIN;
	if (r == DISCARD_BURDENED || r < 0)
		return false;
	do
		n = recvmsg(peer->watch.fd, &header, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		end(peer, NULL);
	else if (header.msg_flags & MSG_TRUNC)
		end(peer, "sent more than a frame");
	else
		hear(peer, frame, (size_t)n);
	return !peer->closing;
}

/* Returns false if no further message waits: this distinguishes a busy peer
 * from one that floods us. */
static bool on_turn(struct flow_item *item)
{
	struct peer *peer = container_of(item, struct peer, item);

	int r;

	if (!read_one(peer))
		return false;
	r = discard_look(peer->watch.fd);
	peer->seen = r == 0;
	return r >= 0;
}

static void on_hush(struct flow_item *item, bool hushed)
{
	struct peer *peer = container_of(item, struct peer, item);

	if (peer->hushed == hushed)
		return;
	peer->hushed = hushed;
	watch_again(peer);
}

/* Returns 0, -EAGAIN, or another error. */
static int send_frame(struct peer *peer, const uint8_t *frame, size_t size)
{
	ssize_t n;

	do {
		n = send(peer->watch.fd, frame, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static void write_some(struct peer *peer)
{
	while (peer->first) {
		struct peer_frame *frame = peer->first;
		int r = send_frame(peer, frame->bytes, frame->size);

		if (r == -EAGAIN)
			return;
		if (r < 0) {
			end(peer, NULL);
			return;
		}
		peer->first = frame->next;
		if (!peer->first)
			peer->last = &peer->first;
		peer->backlog_bytes -= cost_of(frame);
		note_backlog(peer, peer->backlog_bytes + cost_of(frame));
		free(frame);
	}
	watch_again(peer);
}

static void on_ready(struct loop_watch *watch, int events)
{
	struct peer *peer = container_of(watch, struct peer, watch);

	if (events & LOOP_WRITE)
		write_some(peer);
	if ((events & LOOP_READ) && !peer->closing && !peer->failed)
		flow_want(&peer->item);
}

int peer_init(struct peer *peer, struct loop *loop, struct flow *flow, int fd,
	      const struct peer_class *class)
{
	int r;

	*peer = (struct peer){.class = class,
			      .tokens = PEER_BURST,
			      .discarder = &flow->flows->discarder,
			      .pause = {.over = on_pause_over},
			      .item = {.flow = flow, .work = on_turn, .hush = on_hush}};
	peer->last = &peer->first;
	peer->filled_ns = loop_now_ns();
	r = loop_watch(loop, &peer->watch, fd, LOOP_READ, on_ready);
	if (r < 0)
		discard_connection(&flow->flows->discarder, fd);
	return r;
}

static struct peer *worst_of(const struct flow *flow)
{
	struct peer *worst = NULL;

	list_for_each(link, (struct list *)&flow->debtors)
	{
		struct peer *peer = list_entry(link, struct peer, debtor);

		if (!worst || peer->backlog_bytes > worst->backlog_bytes)
			worst = peer;
	}
	return worst;
}

static const struct flow *worst_flow(const struct flows *flows)
{
	const struct flow *worst = NULL;

	list_for_each(link, (struct list *)&flows->debtors)
	{
		const struct flow *flow = list_entry(link, struct flow, debtor);

		if (!worst || flow->backlog_bytes > worst->backlog_bytes)
			worst = flow;
	}
	return worst;
}

/* If `bytes` more would be too many unread bytes, ends the peers that have the most. */
static void make_room(struct peer *peer, size_t bytes)
{
	static const char reason[] = "does not read its messages";
	struct peer *worst;

	if (peer->backlog_bytes + bytes >
	    (peer->item.flow->long_lists ? PEER_BACKLOG_LAST : PEER_BACKLOG))
		end_soon(peer, reason);
	if (peer->item.flow->last)
		return;
	if (peer->item.flow->backlog_bytes + bytes > FLOW_BACKLOG &&
	    (worst = worst_of(peer->item.flow)) != NULL)
		end_soon(worst, reason);
	if (peer->item.flow->flows->backlog_bytes + bytes > FLOWS_BACKLOG &&
	    (worst = worst_of(worst_flow(peer->item.flow->flows))) != NULL)
		end_soon(worst, reason);
}

static void keep_for_later(struct peer *peer, const uint8_t *bytes, size_t size)
{
	struct peer_frame *frame;
	size_t before;

	make_room(peer, sizeof(*frame) + size + 2 * sizeof(void *));
	if (peer->failed)
		return;
	frame = malloc(sizeof(*frame) + size);
	if (!frame) {
		end_soon(peer, "cannot be sent to: out of memory");
		return;
	}
	frame->next = NULL;
	frame->size = size;
	memcpy(frame->bytes, bytes, size);
	*peer->last = frame;
	peer->last = &frame->next;
	before = peer->backlog_bytes;
	peer->backlog_bytes += cost_of(frame);
	note_backlog(peer, before);
	if (peer->first == frame)
		watch_again(peer);
}

void peer_send(struct peer *peer, const struct wire_message *message)
{
	uint8_t frame[WIRE_FRAME_MAX];
	size_t size;
	int r = -EAGAIN;

	if (peer->closing || peer->failed)
		return;
	size = wire_encode(message, frame);
	if (!peer->first)
		r = send_frame(peer, frame, size);
	if (r == -EAGAIN)
		keep_for_later(peer, frame, size);
	else if (r < 0)
		end_soon(peer, NULL);
}

/* False: it was not sent. */
static bool send_now(struct peer *peer, const struct wire_message *message, const int *fds,
		     unsigned count)
{
	uint8_t frame[WIRE_FRAME_MAX];
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct iovec part = {frame, wire_encode(message, frame)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = CMSG_SPACE(count * sizeof(int))};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	return !peer->first && sendmsg(peer->watch.fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

void peer_send_with(struct peer *peer, const struct wire_message *message, const int *fds,
		    unsigned count)
{
	if (!peer->closing && !peer->failed && !send_now(peer, message, fds, count))
		end_soon(peer, "cannot be sent its descriptors");
}

bool peer_try_with(struct peer *peer, const struct wire_message *message, int fd)
{
	return !peer->closing && !peer->failed && send_now(peer, message, &fd, 1);
}

uint32_t peer_new_id(struct peer *peer)
{
	return 0x80000000u | ++peer->next_id;
}

void peer_refuse_list(struct peer *peer, uint32_t id, uint32_t code, const char *format,
		      va_list arguments)
{
	struct wire_message answer;

	wire_begin(&answer, WIRE_refused, id);
	answer.refused.code = code;
	vsnprintf(answer.refused.reason.text, sizeof(answer.refused.reason.text), format,
		  arguments);
	text_make_plain(answer.refused.reason.text);
	peer_send(peer, &answer);
}

void peer_refuse(struct peer *peer, uint32_t id, uint32_t code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	peer_refuse_list(peer, id, code, format, arguments);
	va_end(arguments);
}

void peer_done(struct peer *peer, uint32_t id, uint64_t value)
{
	struct wire_message answer;

	wire_begin(&answer, WIRE_done, id);
	answer.done.value = value;
	peer_send(peer, &answer);
}
