/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/admin.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/held.h"
#include "base/place.h"
#include "base/text.h"

enum { BUSY_ROUNDS = 10 };

void admin_close(struct admin *admin)
{
	if (admin->fd >= 0)
		close(admin->fd);
	admin->fd = -1;
}

char admin_state(pid_t pid)
{
	char path[64], stat[512];
	owned(fclose) FILE *file = NULL;
	const char *name;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = pid > 0 ? fopen(path, "re") : NULL;
	n = file ? fread(stat, 1, sizeof(stat) - 1, file) : 0;
	stat[n] = '\0';
	/* "4711 (name) T ...": the name may hold anything. */
	name = strrchr(stat, ')');
	return name && name[1] == ' ' ? name[2] : '\0';
}

static int say_silent(const struct admin *admin, struct fault *why)
{
	char state = admin_state(admin->pid);

	if (admin->stream)
		return fault_set(why, -ETIMEDOUT, "its meted does not answer");
	if (!admin->pid)
		return fault_set(
			why, -ETIMEDOUT,
			"meted accepts no connections: it is stopped or hung" ADMIN_DOCTOR);
	if (state == 'T' || state == 't')
		return fault_set(why, -ETIMEDOUT,
				 "meted (process %d) is stopped and does not answer" ADMIN_DOCTOR,
				 (int)admin->pid);
	return fault_set(why, -ETIMEDOUT,
			 "meted (process %d) hangs: it has not answered for %.1f s" ADMIN_DOCTOR,
			 (int)admin->pid, ADMIN_PATIENCE_MS / 1000.0);
}

void admin_be_patient(const struct admin *admin, int patience_ms)
{
	struct timeval patience = {.tv_sec = patience_ms / 1000,
				   .tv_usec = patience_ms % 1000 * 1000};

	setsockopt(admin->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(admin->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

void admin_tell(const struct admin *admin, const char *verb)
{
	char text[WIRE_TEXT_MAX + 1], *rest = text, *line;

	snprintf(text, sizeof(text), "%s", admin->daemon.trouble.text);
	while ((line = strsep(&rest, "\n")) != NULL) {
		text_make_plain(line);
		if (*line)
			fprintf(stderr, "mete %s: note: %s\n", verb, line);
	}
}

/* Texts that others chose must not move the reader's cursor or break a parser. */
static void make_plain(struct wire_message *m)
{
	if (m->code == WIRE_tenant_row)
		text_make_plain(m->tenant_row.name.text);
	else if (m->code == WIRE_guest_row)
		text_make_plain(m->guest_row.program.text);
	else if (m->code == WIRE_device_row)
		text_make_plain(m->device_row.model.text);
	else if (m->code == WIRE_outside_row)
		text_make_plain(m->outside_row.program.text);
	else if (m->code == WIRE_event_row) {
		text_make_plain(m->event_row.name.text);
		text_make_plain(m->event_row.said.text);
	} else if (m->code == WIRE_refused)
		text_make_plain(m->refused.reason.text);
}

/* As many of `size` bytes as come before the stream ends; -1 as recv(). */
static ssize_t receive_all(int fd, uint8_t *out, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = recv(fd, out + done, size - done, 0);

		if (n < 0 && errno == EINTR)
			continue; /* the terminal's size has changed */
		if (n < 0)
			return n;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* One frame, as recv() of a packet. */
static ssize_t receive(const struct admin *admin, uint8_t frame[WIRE_FRAME_MAX])
{
	ssize_t n;
	size_t size;

	if (!admin->stream)
		return recv(admin->fd, frame, WIRE_FRAME_MAX, 0);
	n = receive_all(admin->fd, frame, WIRE_HEADER);
	if (n != WIRE_HEADER)
		return n < 0 ? n : 0;
	size = wire_length(frame);
	if (!size)
		return n; /* not a frame: wire_decode() says what it is */
	n = receive_all(admin->fd, frame + WIRE_HEADER, size - WIRE_HEADER);
	return n < 0 || (size_t)n < size - WIRE_HEADER ? (n < 0 ? n : 0) : (ssize_t)size;
}

int admin_next(struct admin *admin, struct wire_message *ret_row, struct fault *why)
{
	uint8_t frame[WIRE_FRAME_MAX];
	int rounds = 0;
	ssize_t n;

	/* On a busy machine it may be runnable without getting time: that does not count as
	 * hanging. */
	do {
		n = receive(admin, frame);
	} while (n < 0 && (errno == EINTR || (errno == EAGAIN && admin_state(admin->pid) == 'R' &&
					      rounds++ < BUSY_ROUNDS)));
	if (n < 0 && errno == EAGAIN)
		return say_silent(admin, why);
	if (n < 0)
		return fault_set(why, -errno, "meted does not answer: %s", strerror(errno));
	if (n == 0)
		return fault_set(why, -ECONNRESET, "meted closed the connection");
	if (wire_decode(frame, (size_t)n, ret_row) != 0)
		return fault_set(why, -EPROTO,
				 "meted sent a reply that this mete does not understand");
	make_plain(ret_row);
	if (ret_row->code == WIRE_refused)
		return fault_set(why, -EPERM, "%s", ret_row->refused.reason.text);
	return 0;
}

int admin_send(struct admin *admin, struct wire_message *request, struct fault *why)
{
	uint8_t frame[WIRE_FRAME_MAX];
	size_t size;

	request->id = ++admin->last_id;
	size = wire_encode(request, frame);
	/* A meted that turns us away sends its reason first: it can still be read. */
	if (send(admin->fd, frame, size, MSG_NOSIGNAL) != (ssize_t)size &&
	    (errno != EPIPE || recv(admin->fd, frame, 1, MSG_PEEK | MSG_DONTWAIT) <= 0))
		return fault_set(why, errno == EPIPE ? -ECONNRESET : -errno,
				 "cannot query meted: %s", strerror(errno));
	return 0;
}

int admin_ask(struct admin *admin, struct wire_message *request, struct wire_message *ret_answer,
	      struct fault *why)
{
	int r = admin_send(admin, request, why);

	return r < 0 ? r : admin_next(admin, ret_answer, why);
}

static int greet(struct admin *admin, struct fault *why)
{
	struct wire_message hello = {.code = WIRE_admin_hello};
	struct wire_message answer = {0};
	int r;

	hello.admin_hello.major = WIRE_MAJOR;
	hello.admin_hello.minor = WIRE_MINOR;
	r = admin_ask(admin, &hello, &answer, why);
	if (r < 0)
		return r;
	if (answer.code != WIRE_admin_welcome)
		return fault_set(why, -EPROTO, "meted replied '%s' to the greeting",
				 wire_name(answer.code));
	admin->daemon = answer.admin_welcome;
	return 0;
}

int admin_greet_stream(struct admin *admin, int fd, int patience_ms, struct fault *why)
{
	int r;

	*admin = (struct admin){.fd = fd, .stream = true};
	admin_be_patient(admin, patience_ms);
	r = greet(admin, why);
	if (r < 0)
		admin_close(admin);
	return r;
}

/* Checks that the listener is the expected user: a folder that was exchanged behind our back is
 * not trusted. root's daemon may serve everyone. */
static int check_peer(struct admin *admin, const char *place, uid_t owner, struct fault *why)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	if (getsockopt(admin->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
		return fault_set(why, -errno, "%s: %s", place, strerror(errno));
	admin->pid = who.pid;
	if (who.uid == owner || who.uid == 0)
		return 0;
	return fault_set(why, -EPERM,
			 "%s: a process of user %u listens there, but user %u's meted was expected",
			 place, (unsigned)who.uid, (unsigned)owner);
}

/* Connects to the process that listens there. ADMIN_ABSENT: none does. */
static int open_socket(struct admin *admin, const char *place, bool system, struct fault *why)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r;

	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/admin.sock", place) >=
	    (int)sizeof(address.sun_path))
		return fault_set(why, -ENAMETOOLONG, "%s: too long for a socket's folder", place);
	admin->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (admin->fd < 0)
		return fault_set(why, -errno, "no socket: %s", strerror(errno));
	admin_be_patient(admin, ADMIN_PATIENCE_MS);
	if (connect(admin->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return 0;
	r = -errno;
	admin_close(admin);
	if (r == -ENOENT || r == -ECONNREFUSED || r == -ENOTDIR)
		return ADMIN_ABSENT;
	if (r == -EAGAIN)
		return say_silent(admin, why);
	/* The socket of a former version, which only root could use: does that meted still run? */
	if (r == -EACCES && system && held_file(PLACE_SYSTEM "/lock") != 1)
		return ADMIN_ABSENT;
	return fault_set(why, r, "%s: %s", address.sun_path, strerror(-r));
}

int admin_connect(struct admin *admin, const char *place, struct fault *why)
{
	bool system = strcmp(place, PLACE_SYSTEM) == 0;
	uid_t owner = system ? 0 : getuid();
	int r;

	*admin = (struct admin){.fd = -1};
	r = place_check(place, owner, system ? PLACE_READABLE : PLACE_PRIVATE, why);
	/* No meted runs in a folder with other rights or another owner than meted gives it:
	 * leftovers in the system's place lock nobody out. */
	if (r == PLACE_ABSENT || (r < 0 && system))
		return ADMIN_ABSENT;
	if (r < 0)
		return r;
	r = open_socket(admin, place, system, why);
	if (r != 0)
		return r;
	r = check_peer(admin, place, owner, why);
	if (r == 0)
		r = greet(admin, why);
	if (r < 0)
		admin_close(admin);
	return r;
}

int admin_connect_any(struct admin *admin, char *ret_place, struct fault *why)
{
	char own[PLACE_MAX];
	int r = admin_connect(admin, PLACE_SYSTEM, why);

	if (r != ADMIN_ABSENT) {
		memcpy(ret_place, PLACE_SYSTEM, sizeof(PLACE_SYSTEM));
		if (r == -EACCES)
			return fault_set(why, r,
					 PLACE_SYSTEM
					 " belongs to a system meted that serves only root: use "
					 "sudo, or replace it with this version");
		return r;
	}
	r = place_user(own, why);
	if (r < 0)
		return r;
	memcpy(ret_place, own, sizeof(own));
	r = admin_connect(admin, own, why);
	/* It has just begun to exit, as its last tenant has left. */
	return r == -ECONNRESET ? ADMIN_ABSENT : r;
}

int admin_connect_for(struct admin *admin, const char *who, struct fault *why)
{
	char place[PLACE_MAX];
	int r = admin_connect_any(admin, place, why);

	if (r == ADMIN_ABSENT)
		return fault_set(why, -ESRCH, "no meted is running, so there is no tenant '%.60s'",
				 who);
	return r;
}

void admin_name_tenant(const char *who, uint32_t *ret_tenant, wire_text *ret_name)
{
	char *end;
	unsigned long number = strtoul(who, &end, 10);

	*ret_tenant = *who && !*end && number <= UINT32_MAX ? (uint32_t)number : 0;
	wire_set_text(ret_name, who);
}
