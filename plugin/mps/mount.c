/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a daemon is a small file system of its own, in memory: what containers write there
 * takes neither the host's disk nor its inodes, and a link in it leads nowhere, whenever it was
 * made. The runtime gives the folder to containers, so it must see our file system: a mount of ours
 * reaches it only where mounts are shared with the host. A systemd service's are not: it gets the
 * host's mounts, and passes none on. Then the mount is made where the service manager is, which has
 * started us; that it reaches us says that it is where ours come from.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

enum reach {
	OURS_ALONE, /* nobody else sees what is mounted there */
	PASSED_ON,  /* the host does */
	RECEIVED,   /* we see what the host mounts there, and it does not see what we do */
};

/* A line of mountinfo: six fields, then those that say with whom it is shared, then "-". A slave
 * (master:N) gets the host's mounts and passes its own on to nobody but its peers. */
static enum reach reach_of_line(char *line)
{
	int fields = 0;
	char *end;

	if (sscanf(line, "%*d %*d %*s %*s %*s %*s %n", &fields) < 0 || !fields)
		return OURS_ALONE;
	end = strstr(line + fields - 1, " - ");
	if (!end)
		return OURS_ALONE;
	*end = '\0';
	if (strstr(line + fields - 1, " master:"))
		return RECEIVED;
	return strstr(line + fields - 1, " shared:") ? PASSED_ON : OURS_ALONE;
}

static enum reach reach_of(const char *path)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	owned(free) char *line = NULL;
	int id = mount_id(path);
	enum reach reach = OURS_ALONE;
	size_t room = 0;

	while (file && id >= 0 && getline(&line, &room, file) > 0)
		if (atoi(line) == id)
			reach = reach_of_line(line);
	if (file)
		fclose(file);
	return reach;
}

/* ---- where the process is that has started us ------------------------------------------------ */

/* Its mounts, if they are others than ours; -1: they are not, or it cannot be seen. */
static int starters_mounts(void)
{
	char path[40];
	struct stat ours, its;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)getppid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &its) == 0 && stat("/proc/self/ns/mnt", &ours) == 0 &&
	    (its.st_ino != ours.st_ino || its.st_dev != ours.st_dev))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* In a process of its own: a thread that has gone there might not come back. -errno. */
static int do_there(int (*act)(const char *folder), const char *folder)
{
	owned(close) int there = starters_mounts();
	int status = 0;
	pid_t pid;

	if (there < 0)
		return -ENOENT;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(setns(there, CLONE_NEWNS) < 0 ? errno : -act(folder));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static int mount_folder(const char *folder)
{
	return mount("mete-mps", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW,
		     BOUNDS) < 0
		       ? -errno
		       : 0;
}

/* A container that has it keeps it until it ends. */
static int unmount_folder(const char *folder)
{
	while (umount2(folder, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		continue;
	return 0;
}

/* ---- what is done ---------------------------------------------------------------------------- */

static bool is_mounted(const char *root, const char *folder)
{
	struct stat above, there;

	return stat(root, &above) == 0 && stat(folder, &there) == 0 && there.st_dev != above.st_dev;
}

/* What is missing of the root will be on the mount of what is there. */
static enum reach reach_below(const char *root)
{
	char there[MPS_PATH];

	snprintf(there, sizeof(there), "%s", root);
	while (access(there, F_OK) != 0 && strrchr(there, '/') > there)
		*strrchr(there, '/') = '\0';
	return reach_of(there);
}

int mps_may_mount(const char *root, struct fault *why)
{
	enum reach reach = reach_below(root);
	owned(close) int there = reach == RECEIVED ? starters_mounts() : -1;

	if (reach == PASSED_ON || there >= 0)
		return 0;
	return fault_set(why, MPS_UNBOUNDED,
			 "%s: the host does not see what is mounted below it here, and nothing "
			 "bounds what containers write there; accepted: a folder whose mount is "
			 "shared with the host (in a container: mountPropagation Bidirectional), "
			 "or a systemd service, whose manager's mounts it gets",
			 root);
}

/* It is nowhere if it does not reach us: then it was mounted where nobody looks. */
static int mount_there(const struct mps_daemon *daemon)
{
	int r = do_there(mount_folder, daemon->folder);

	if (r < 0 || is_mounted(daemon->root, daemon->folder))
		return r;
	best_effort(do_there(unmount_folder, daemon->folder));
	return -EXDEV;
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
	r = reach_below(daemon->root) == PASSED_ON ? mount_folder(folder) : mount_there(daemon);
	return r < 0 ? fault_set(why, MPS_UNBOUNDED, "%s: %s", folder, strerror(-r)) : 0;
}

void mps_unmount(const struct mps_daemon *daemon)
{
	if (is_mounted(daemon->root, daemon->folder) && reach_below(daemon->root) == RECEIVED)
		best_effort(do_there(unmount_folder, daemon->folder));
	best_effort(unmount_folder(daemon->folder));
}
