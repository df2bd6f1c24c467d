/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/mps.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cuda/nvml_types_device.h"
#include "sim/machine/device.h"
#include "sim/machine/segment.h"

enum { MILLI = 1000, LINE = 2048 };

static struct {
	pthread_mutex_t joining;
	pid_t pid; /* the process that has connected: a forked child connects anew */
	uint32_t server, milli;
	bool limited[SETTINGS_DEVICES_MAX];
	uint64_t limit[SETTINGS_DEVICES_MAX];
} client = {.joining = PTHREAD_MUTEX_INITIALIZER};

static int connect_to(const char *folder)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd;

	if (snprintf(at.sun_path, sizeof(at.sun_path), "%s/control", folder) >=
	    (int)sizeof(at.sun_path))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* A line, without its end. False: there is none. */
static bool read_line(int fd, char line[LINE])
{
	size_t used = 0;

	while (used + 1 < LINE) {
		ssize_t n = read(fd, line + used, 1);

		if (n != 1)
			return false;
		if (line[used] == '\n') {
			line[used] = '\0';
			return true;
		}
		used++;
	}
	return false;
}

/* "0=2G,1=512M" from the environment, or "0=1000 1=2000" from the daemon. The lower limit applies.
 * A text that is not understood sets no limit, as NVIDIA's documentation warns. */
static void take_limits(const char *list)
{
	while (*list) {
		char *end;
		unsigned long device = strtoul(list, &end, 10);
		uint64_t bytes;

		if (end == list || *end != '=' || device >= SETTINGS_DEVICES_MAX)
			return;
		bytes = strtoull(end + 1, &end, 10);
		bytes <<= *end == 'G' ? 30 : *end == 'M' ? 20 : 0;
		end += *end == 'G' || *end == 'M';
		if (!client.limited[device] || bytes < client.limit[device])
			client.limit[device] = bytes;
		client.limited[device] = true;
		list = end + strspn(end, ", ");
	}
}

static void take_answer(const char *line)
{
	const char *own = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
		   *limits = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	unsigned server, milli;
	int used = 0;

	if (sscanf(line, "ok %u %u %n", &server, &milli, &used) != 2)
		return;
	client.server = server;
	client.milli = milli;
	if (own && atof(own) > 0 && atof(own) * 10 < milli)
		client.milli = (uint32_t)(atof(own) * 10);
	if (!client.milli)
		client.milli = 1;
	take_limits(line + used);
	if (limits)
		take_limits(limits);
}

static void join(void)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char line[LINE];
	int fd;

	client.server = 0;
	memset(client.limited, 0, sizeof(client.limited));
	fd = folder && *folder ? connect_to(folder) : -1;
	if (fd < 0)
		return;
	if (send(fd, "join\n", 5, MSG_NOSIGNAL) == 5 && read_line(fd, line))
		take_answer(line);
	/* Otherwise the connection stays open: its end tells the daemon that the client has ended.
	 */
	if (!client.server)
		close(fd);
}

static void join_once(void)
{
	struct segment_process *self = segment_self();

	pthread_mutex_lock(&client.joining);
	if (client.pid != getpid()) {
		join();
		client.pid = getpid();
	}
	if (self) {
		self->mps_milli = client.milli;
		self->mps = client.server;
	}
	pthread_mutex_unlock(&client.joining);
}

/* Clients of one daemon are one process to the device: the daemon's server. */
static bool is_alone(int device, const struct segment_process *self)
{
	struct segment *segment = segment_get();
	uint32_t place = device_place(device);

	segment_reap();
	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		const struct segment_process *other = &segment->processes[i];

		if (other != self && other->state == SEGMENT_ALIVE &&
		    other->usage[place].contexts && (!self->mps || other->mps != self->mps))
			return false;
	}
	return true;
}

bool mps_may_begin(int device)
{
	uint32_t place = device_place(device);
	const struct segment_process *self;
	uint32_t mode;

	join_once();
	self = segment_self();
	if (!self || place >= SETTINGS_DEVICES_MAX)
		return true;
	mode = segment_get()->compute_mode[place]; /* atomic: clang 14 has no switch over it */
	switch (mode) {
	case NVML_COMPUTEMODE_PROHIBITED:
		return false;
	case NVML_COMPUTEMODE_EXCLUSIVE_PROCESS:
		return is_alone(device, self);
	default:
		return true;
	}
}

uint64_t mps_limit(int device)
{
	return client.server && device >= 0 && device < SETTINGS_DEVICES_MAX &&
			       client.limited[device]
		       ? client.limit[device]
		       : UINT64_MAX;
}
