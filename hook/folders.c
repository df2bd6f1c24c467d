/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/folders.h"

#include <elf.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>

#include "hook/linker.h"

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#define MUSL	  "x86_64"
#define CUDA	  "x86_64-linux"
#define MACHINE	  EM_X86_64
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#define MUSL	  "aarch64"
#define CUDA	  "sbsa-linux"
#define MACHINE	  EM_AARCH64
#else
#error "NVIDIA has drivers for x86_64 and aarch64"
#endif

/* Where a distribution's glibc lies: its linker searches these folders without being told. The last
 * is where images of Alpine have a glibc beside their own. */
static const char *const glibc_folders[] = {
	("/lib/" MULTIARCH), ("/usr/lib/" MULTIARCH), "/lib64", "/usr/lib64", "/lib",
	"/usr/lib",	     "/usr/glibc-compat/lib",
};

/* Where else drivers are found. */
static const char *const driver_folders[] = {
	"/usr/local/lib",
	"/usr/local/lib64",
	("/usr/local/lib/" MULTIARCH),
	"/usr/local/nvidia/lib",
	"/usr/local/nvidia/lib64",
	("/usr/lib/" MULTIARCH "/nvidia/current"),
	"/usr/lib/nvidia",
	"/usr/lib64/nvidia",
	"/usr/lib/wsl/lib",
	"/run/opengl-driver/lib",
};

/* In each /usr/local/cuda*. */
static const char *const cuda_folders[] = {
	"compat", "compat/lib", "compat/lib.real", "lib64", ("targets/" CUDA "/lib"),
};

static const char *const musl_folders[] = {"/lib", "/usr/local/lib", "/usr/lib"};
static const char musl_loader[] = "/lib/ld-musl-" MUSL ".so.1";
static const char musl_path[] = "/etc/ld-musl-" MUSL ".path";

struct search {
	struct cover *cover;
	struct fault *why;
	unsigned includes;
	/* Of the file that is being read: */
	const char *folder, *pattern;
};

static int cover_all(struct search *s, const char *const folders[], size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = cover_folder(s->cover, folders[i], s->why);
	return r;
}

/* 1: there is no such file, or none that a linker could read. */
static int read_text(struct search *s, const char *path, size_t most, char **ret_text,
		     struct linker_text *ret_parts)
{
	size_t size;
	int r = root_read(s->cover->root, path, most, ret_text, &size);

	if (r == -EINVAL || root_is_absent(r))
		return 1;
	if (r == -EFBIG)
		return fault_set(s->why, r, "the image's %s is larger than %zu KiB", path,
				 most >> 10);
	if (r < 0)
		return fault_set(s->why, r, "the image's %s: %s", path, root_says(r));
	*ret_parts = (struct linker_text){*ret_text, *ret_text + size};
	return 0;
}

/* Is it a library of this machine's kind? There may be a glibc of 32 bits, too. */
static bool is_ours(struct root *root, const char *path)
{
	owned(close) int there = root_find(root, path, ROOT_FOLLOW), fd = -1;
	struct stat about;
	Elf64_Ehdr head;

	if (there < 0 || fstat(there, &about) != 0 || !S_ISREG(about.st_mode))
		return false;
	fd = root_reopen(there, O_RDONLY);
	return fd >= 0 && read(fd, &head, sizeof(head)) == sizeof(head) &&
	       memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 &&
	       head.e_machine == MACHINE;
}

/* 1: the folder has a glibc, and all names. */
static int name_where_glibc_is(struct search *s, const char *folder)
{
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/libc.so.6", folder) >= (int)sizeof(path) ||
	    !is_ours(s->cover->root, path))
		return 0;
	r = cover_names(s->cover, folder, s->why);
	return r < 0 ? r : 1;
}

/* An unusual image: its cache may know. */
static int name_where_cache_says(struct search *s)
{
	static const char *const libc[] = {"libc.so.6"};
	owned(free) char *text = NULL;
	struct linker_text parts;
	char path[PATH_MAX];
	int r = read_text(s, "/etc/ld.so.cache", FOLDERS_CACHE_MAX, &text, &parts);

	if (r != 0)
		return r < 0 ? r : 0;
	while (r == 0 && linker_next_cached(&parts, libc, ARRAY_SIZE(libc), path)) {
		char *slash = strrchr(path, '/');

		*slash = '\0';
		r = name_where_glibc_is(s, path);
	}
	return r < 0 ? r : 0;
}

static int make_glibc_names(struct search *s)
{
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(glibc_folders); i++) {
		int r = name_where_glibc_is(s, glibc_folders[i]);

		if (r < 0)
			return r;
		found |= r == 1;
	}
	return found ? 0 : name_where_cache_says(s);
}

/* The first of musl's folders that is there, which its linker searches first. */
static int make_names_in_first(struct search *s, const char *folder, bool *made)
{
	owned(close) int there = -1;

	if (*made)
		return 0;
	there = root_find(s->cover->root, folder, ROOT_FOLDER);
	if (there < 0)
		return root_is_absent(there)
			       ? 0
			       : fault_set(s->why, there, "%s: %s", folder, root_says(there));
	*made = true;
	return cover_names(s->cover, folder, s->why);
}

static int cover_musl(struct search *s)
{
	owned(close) int loader = root_find(s->cover->root, musl_loader, ROOT_FOLLOW);
	owned(free) char *text = NULL;
	struct linker_text parts;
	char path[PATH_MAX];
	bool made = false;
	int r;

	if (loader < 0)
		return 0;
	r = read_text(s, musl_path, FOLDERS_TEXT_MAX, &text, &parts);
	if (r == 1) {
		r = 0;
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(musl_folders); i++)
			r = make_names_in_first(s, musl_folders[i], &made);
		return r < 0 ? r : cover_all(s, musl_folders, ARRAY_SIZE(musl_folders));
	}
	while (r == 0 && linker_next_folder(&parts, LINKER_MUSL_ENDS, path)) {
		r = make_names_in_first(s, path, &made);
		if (r == 0)
			r = cover_folder(s->cover, path, s->why);
	}
	return r;
}

static int read_configuration(struct search *s, const char *path);

static int read_included(void *owner, const char *name)
{
	struct search *s = owner;
	char path[PATH_MAX];

	if (fnmatch(s->pattern, name, FNM_PERIOD) != 0 ||
	    snprintf(path, sizeof(path), "%s/%s", s->folder, name) >= (int)sizeof(path))
		return 0;
	return read_configuration(s, path);
}

/* Links below links come to an end where the includes do. */
static int include(struct search *s, const char *pattern)
{
	struct search inner = *s;
	char folder[PATH_MAX], *slash;
	owned(close) int fd = -1;
	int r;

	if (snprintf(folder, sizeof(folder), "%s%s", *pattern == '/' ? "" : "/etc/", pattern) >=
	    (int)sizeof(folder))
		return 0;
	slash = strrchr(folder, '/');
	*slash = '\0';
	fd = root_find(s->cover->root, *folder ? folder : "/", ROOT_FOLDER);
	if (fd < 0)
		return root_is_absent(fd)
			       ? 0
			       : fault_set(s->why, fd, "the image's %s: %s", folder, root_says(fd));
	inner.folder = folder;
	inner.pattern = slash + 1;
	r = root_list(s->cover->root, fd, read_included, &inner);
	s->includes = inner.includes;
	return r;
}

static int read_configuration(struct search *s, const char *path)
{
	owned(free) char *text = NULL;
	char value[PATH_MAX];
	struct linker_text parts;
	enum linker_kind kind;
	int r;

	if (s->includes++ >= FOLDERS_INCLUDES_MAX)
		return fault_set(s->why, -E2BIG,
				 "the image's /etc/ld.so.conf includes more than %d files",
				 FOLDERS_INCLUDES_MAX);
	r = read_text(s, path, FOLDERS_TEXT_MAX, &text, &parts);
	if (r != 0)
		return r < 0 ? r : 0;
	while (r == 0 && (kind = linker_next_entry(&parts, value)) != LINKER_END)
		r = kind == LINKER_INCLUDE ? include(s, value)
					   : cover_folder(s->cover, value, s->why);
	return r;
}

static int cover_cached(struct search *s)
{
	static const char *const drivers[] = {"libcuda", "libnvidia-", "libnvcuvid", "libnvoptix"};
	owned(free) char *text = NULL;
	struct linker_text parts;
	char path[PATH_MAX];
	int r = read_text(s, "/etc/ld.so.cache", FOLDERS_CACHE_MAX, &text, &parts);

	if (r != 0)
		return r < 0 ? r : 0;
	while (r == 0 && linker_next_cached(&parts, drivers, ARRAY_SIZE(drivers), path))
		r = cover_path(s->cover, path, s->why);
	return r;
}

static int cover_one_cuda(void *owner, const char *name)
{
	struct search *s = owner;
	char path[PATH_MAX];
	int r = 0;

	if (strncmp(name, "cuda", 4) != 0)
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cuda_folders); i++) {
		snprintf(path, sizeof(path), "/usr/local/%s/%s", name, cuda_folders[i]);
		r = cover_folder(s->cover, path, s->why);
	}
	return r;
}

static int cover_cuda(struct search *s)
{
	owned(close) int fd = root_find(s->cover->root, "/usr/local", ROOT_FOLDER);

	return fd < 0 ? 0 : root_list(s->cover->root, fd, cover_one_cuda, s);
}

/* As each of the linkers would read it: an image may have both. */
static int cover_library_path(struct search *s, const char *library_path)
{
	static const char *const ends[] = {LINKER_GLIBC_ENDS, LINKER_MUSL_ENDS};
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct linker_text parts = {library_path, library_path + strlen(library_path)};

		while (r == 0 && linker_next_folder(&parts, ends[i], path))
			r = cover_folder(s->cover, path, s->why);
	}
	return r;
}

int folders_cover(struct cover *cover, const char *library_path, struct fault *why)
{
	struct search s = {.cover = cover, .why = why};
	int r;

	why->text[0] = '\0';
	r = make_glibc_names(&s);
	if (r == 0)
		r = cover_musl(&s);
	if (r == 0)
		r = cover_all(&s, glibc_folders, ARRAY_SIZE(glibc_folders));
	if (r == 0)
		r = cover_all(&s, driver_folders, ARRAY_SIZE(driver_folders));
	if (r == 0)
		r = cover_cuda(&s);
	if (r == 0)
		r = read_configuration(&s, "/etc/ld.so.conf");
	if (r == 0)
		r = cover_cached(&s);
	if (r == 0)
		r = cover_library_path(&s, library_path);
	/* Lists of files end with errors that nobody could explain before. */
	if (r < 0 && !*why->text)
		return fault_set(why, r, "the image cannot be read: %s", root_says(r));
	return r;
}
