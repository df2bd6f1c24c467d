/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/admin.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/place.h"
#include "base/text.h"

void admin_close(struct admin *admin)
{
	if (admin->fd >= 0)
		close(admin->fd);
	admin->fd = -1;
}

/* What others chose must not move the reader's cursor, nor break a parser. */
static void make_plain(struct wire_message *m)
{
	if (m->code == WIRE_tenant_row)
		text_make_plain(m->tenant_row.name.text);
	else if (m->code == WIRE_guest_row)
		text_make_plain(m->guest_row.program.text);
	else if (m->code == WIRE_device_row)
		text_make_plain(m->device_row.model.text);
	else if (m->code == WIRE_refused)
		text_make_plain(m->refused.reason.text);
}

int admin_next(struct admin *admin, struct wire_message *ret_row, struct fault *why)
{
	uint8_t frame[WIRE_FRAME_MAX];
	ssize_t n;

	do {
		n = recv(admin->fd, frame, sizeof(frame), 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return fault_set(why, -errno, "meted does not answer: %s", strerror(errno));
	if (n == 0)
		return fault_set(why, -ECONNRESET, "meted closed the connection");
	if (wire_decode(frame, (size_t)n, ret_row) != 0)
		return fault_set(why, -EPROTO,
				 "meted answered something that this mete does not know");
	make_plain(ret_row);
	if (ret_row->code == WIRE_refused)
		return fault_set(why, -EPERM, "%s", ret_row->refused.reason.text);
	return 0;
}

int admin_ask(struct admin *admin, struct wire_message *request, struct wire_message *ret_answer,
	      struct fault *why)
{
	uint8_t frame[WIRE_FRAME_MAX];
	size_t size;

	request->id = ++admin->last_id;
	size = wire_encode(request, frame);
	if (send(admin->fd, frame, size, MSG_NOSIGNAL) != (ssize_t)size)
		return fault_set(why, errno == EPIPE ? -ECONNRESET : -errno,
				 "meted cannot be asked: %s", strerror(errno));
	return admin_next(admin, ret_answer, why);
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
		return fault_set(why, -EPROTO, "meted answered '%s' to a greeting",
				 wire_name(answer.code));
	admin->daemon = answer.admin_welcome;
	return 0;
}

/* Whoever listens there is who may: of a folder that was exchanged behind our back, nothing is
 * believed. root's daemon may serve everybody. */
static int check_peer(const struct admin *admin, const char *place, uid_t owner, struct fault *why)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	if (getsockopt(admin->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
		return fault_set(why, -errno, "%s: %s", place, strerror(errno));
	if (who.uid == owner || who.uid == 0)
		return 0;
	return fault_set(why, -EPERM,
			 "%s: a program of user %u listens there, and user %u's meted was wanted",
			 place, (unsigned)who.uid, (unsigned)owner);
}

int admin_connect(struct admin *admin, const char *place, struct fault *why)
{
	bool system = strcmp(place, PLACE_SYSTEM) == 0;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uid_t owner = system ? 0 : getuid();
	int r;

	*admin = (struct admin){.fd = -1};
	r = place_check(place, owner, system ? PLACE_READABLE : PLACE_PRIVATE, why);
	if (r != 0)
		return r == PLACE_ABSENT ? ADMIN_ABSENT : r;
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/admin.sock", place) >=
	    (int)sizeof(address.sun_path))
		return fault_set(why, -ENAMETOOLONG, "%s: too long for a socket's folder", place);
	admin->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (admin->fd < 0)
		return fault_set(why, -errno, "no socket: %s", strerror(errno));
	if (connect(admin->fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		r = -errno;
		admin_close(admin);
		if (r == -ENOENT || r == -ECONNREFUSED || r == -ENOTDIR)
			return ADMIN_ABSENT;
		return fault_set(why, r, "%s: %s", address.sun_path, strerror(-r));
	}
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
					 " belongs to a system meted, whose admin socket "
					 "is root's: use sudo, or remove that folder if "
					 "none runs any more");
		return r;
	}
	r = place_user(own, why);
	if (r < 0)
		return r;
	memcpy(ret_place, own, sizeof(own));
	r = admin_connect(admin, own, why);
	/* One that has just begun to leave: it ends with its last tenant. */
	return r == -ECONNRESET ? ADMIN_ABSENT : r;
}

struct admin_uuid admin_uuid(const struct wire_device_row *device)
{
	struct admin_uuid named;
	int n = snprintf(named.text, sizeof(named.text), "%.79s", device->name.text);

	if (n > 0)
		return named;
	/* An older meted says the number alone. */
	n = snprintf(named.text, sizeof(named.text), "GPU-");
	for (int i = 0; i < 16; i++)
		n += snprintf(named.text + n, sizeof(named.text) - (size_t)n, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      device->uuid.byte[i]);
	return named;
}
