/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete-hook: a createContainer hook. The runtime starts it with the container's mounts made and the
 * host's files still in sight, and gives it the container's state on standard input.
 *
 *	mete-hook GUEST        the library on the host, which the container has as PLACE_GUEST
 *
 * cover.h describes its work, folders.h the folders that it searches. The image is not trusted; the
 * runtime's state and the container's configuration are the host's. It changes mounts and links in
 * the container alone, twice with the same result. When it cannot do all of it, it writes the
 * reason in one sentence and fails, and the container does not start: one whose programs pass the
 * guest by would take its neighbours' memory.
 */
#include <fcntl.h>
#include <string.h>

#include "hook/folders.h"
#include "hook/json.h"

enum {
	STATE_BYTES_MAX = 4 << 20, /* it holds the container's annotations */
	CONFIG_BYTES_MAX = 32 << 20,
};

struct container {
	char bundle[PATH_MAX], root[PATH_MAX], library_path[64 << 10];
};

/* To its end: -EFBIG if that is farther than `most`. */
static int read_whole(int fd, size_t most, char **ret_text, size_t *ret_size)
{
	owned(free) char *text = NULL;
	size_t room = 0, used = 0;
	ssize_t n;

	do {
		if (used == room) {
			char *grown = realloc(text, room = room ? 2 * room : 64 << 10);

			if (!grown)
				return -ENOMEM;
			text = grown;
		}
		n = read(fd, text + used, room - used);
		if (n > 0)
			used += (size_t)n;
		if (used > most)
			return -EFBIG;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		return -errno;
	*ret_text = take(text);
	*ret_size = used;
	return 0;
}

static int read_state(struct container *container, struct fault *why)
{
	static const char *const bundle[] = {"bundle", NULL};
	owned(free) char *text = NULL;
	size_t size = 0;
	int r = read_whole(STDIN_FILENO, STATE_BYTES_MAX, &text, &size);

	if (r == 0)
		r = json_string(text, size, bundle, container->bundle, sizeof(container->bundle));
	return r < 0 ? fault_set(why, r,
				 "standard input has no state of a container with a bundle: %s",
				 strerror(-r))
		     : 0;
}

static int read_config(struct container *container, struct fault *why)
{
	static const char *const root[] = {"root", "path", NULL};
	static const char *const environment[] = {"process", "env", NULL};
	char path[PATH_MAX + 16];
	owned(free) char *text = NULL;
	owned(close) int fd = -1;
	size_t size = 0;
	int r;

	snprintf(path, sizeof(path), "%s/config.json", container->bundle);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : read_whole(fd, CONFIG_BYTES_MAX, &text, &size);
	if (r == 0)
		r = json_string(text, size, root, container->root, sizeof(container->root));
	if (r < 0)
		return fault_set(why, r, "%s: no root.path: %s", path, strerror(-r));
	r = json_element(text, size, environment, "LD_LIBRARY_PATH=", container->library_path,
			 sizeof(container->library_path));
	if (r == -ENOENT)
		container->library_path[0] = '\0';
	else if (r < 0)
		return fault_set(why, r, "%s: process.env: %s", path, strerror(-r));
	return 0;
}

static int open_root(const struct container *container, struct root *ret_root, struct fault *why)
{
	char path[2 * PATH_MAX];
	struct stat own, theirs;
	int r;

	snprintf(path, sizeof(path), "%s%s%s", container->root[0] == '/' ? "" : container->bundle,
		 container->root[0] == '/' ? "" : "/", container->root);
	r = root_open(path, ret_root, why);
	if (r < 0)
		return r;
	if (stat("/", &own) == 0 && fstat(ret_root->fd, &theirs) == 0 &&
	    (own.st_dev != theirs.st_dev || own.st_ino != theirs.st_ino))
		return 0;
	root_close(ret_root);
	return fault_set(why, -EINVAL, "%s is the host's own root, where nothing may be changed",
			 path);
}

static int run(const char *guest, struct fault *why)
{
	owned(free) struct container *container = calloc(1, sizeof(*container));
	owned(root_close) struct root root = {.fd = -1};
	owned(cover_free) struct cover *cover = NULL;
	int r;

	if (!container)
		return fault_set(why, -ENOMEM, "out of memory");
	r = read_state(container, why);
	if (r == 0)
		r = read_config(container, why);
	if (r == 0)
		r = open_root(container, &root, why);
	if (r == 0)
		r = cover_open(&root, guest, &cover, why);
	if (r == 0)
		r = folders_cover(cover, container->library_path, why);
	return r;
}

int main(int argc, char **argv)
{
	struct fault why;

	if (argc != 2) {
		fprintf(stderr, "mete-hook: usage: mete-hook GUEST, as a createContainer hook\n");
		return 2;
	}
	if (run(argv[1], &why) == 0)
		return 0;
	fprintf(stderr, "mete-hook: %s\n", why.text);
	return 1;
}
