/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a daemon is a small file system of its own, in memory: what containers write there
 * takes neither the host's disk nor its inodes, and a link in it leads nowhere, whenever it was
 * made. The runtime gives the folder to containers, so it must see our file system: a mount of ours
 * reaches it only where mounts are shared with the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "plugin/mps/inside.h"

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256 /* Linux 5.10; before, the kernel does not look at it */
#endif

/* A log of some hundred thousand lines, and more sockets than MPS has clients. */
#define BOUNDS "size=32m,nr_inodes=2048,mode=0755"

enum { FDINFO_MOST = 4096 };

/* -1: not known. */
static int mount_id(const char *path)
{
	owned(close) int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	owned(free) char *text = NULL;
	char info[40];
	const char *at;
	size_t size;

	snprintf(info, sizeof(info), "/proc/self/fdinfo/%d", fd);
	if (fd < 0 || file_slurp(info, FDINFO_MOST, &text, &size) < 0)
		return -1;
	at = strstr(text, "mnt_id:");
	return at ? atoi(at + strlen("mnt_id:")) : -1;
}

/* A line of mountinfo: six fields, then those that say with whom it is shared, then "-". A slave
 * (master:N) gets the host's mounts and passes its own on to nobody but its peers. */
static bool line_passes_on(char *line)
{
	int fields = 0;
	char *end;

	if (sscanf(line, "%*d %*d %*s %*s %*s %*s %n", &fields) < 0 || !fields)
		return false;
	end = strstr(line + fields - 1, " - ");
	if (!end)
		return false;
	*end = '\0';
	return strstr(line + fields - 1, " shared:") && !strstr(line + fields - 1, " master:");
}

static bool passes_on(const char *path)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	owned(free) char *line = NULL;
	int id = mount_id(path);
	bool does = false;
	size_t room = 0;

	while (file && id >= 0 && getline(&line, &room, file) > 0)
		if (atoi(line) == id)
			does = line_passes_on(line);
	if (file)
		fclose(file);
	return does;
}

static bool is_mounted(const char *root, const char *folder)
{
	struct stat above, there;

	return stat(root, &above) == 0 && stat(folder, &there) == 0 && there.st_dev != above.st_dev;
}

int mps_may_mount(const char *root, struct fault *why)
{
	char there[MPS_PATH];

	snprintf(there, sizeof(there), "%s", root);
	/* What is missing of it will be on the mount of what is there. */
	while (access(there, F_OK) != 0 && strrchr(there, '/') > there)
		*strrchr(there, '/') = '\0';
	if (passes_on(there))
		return 0;
	return fault_set(why, MPS_UNBOUNDED,
			 "%s: the host does not see what is mounted below it here, and nothing "
			 "bounds what containers write there; accepted: a folder whose mount is "
			 "shared with the host (in a container: mountPropagation Bidirectional)",
			 root);
}

int mps_mount(const struct mps_daemon *daemon, struct fault *why)
{
	const char *folder = daemon->folder;
	char pipe[MPS_PATH + 16];
	int r;

	if (is_mounted(daemon->root, folder))
		return 0;
	snprintf(pipe, sizeof(pipe), "%s/pipe", folder);
	if (access(pipe, F_OK) == 0)
		return fault_set(why, MPS_UNBOUNDED, "%s: a container may have it as it is", pipe);
	r = mps_may_mount(daemon->root, why);
	if (r != 0)
		return r;
	if (mount("mete-mps", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW,
		  BOUNDS) < 0)
		return fault_set(why, MPS_UNBOUNDED, "%s: %s", folder, strerror(errno));
	return 0;
}

/* A container that has it keeps it until it ends. */
void mps_unmount(const struct mps_daemon *daemon)
{
	while (umount2(daemon->folder, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		continue;
}
