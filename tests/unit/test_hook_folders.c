/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which folders of an image mete-hook looks for drivers, and in which it makes names: the test
 * stands in for the part that covers them.
 */
#include "hook/folders.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/folder.h"
#include "tests/test.h"

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#define MUSL	  "x86_64"
#define MACHINE	  EM_X86_64
#else
#define MULTIARCH "aarch64-linux-gnu"
#define MUSL	  "aarch64"
#define MACHINE	  EM_AARCH64
#endif

enum { MOST = 256 };

/* "cover PATH", "names PATH", "file PATH", in their order. */
static char done[MOST][300];
static unsigned count;
static const char *failing; /* the folder whose covering fails */

int __wrap_cover_folder(struct cover *c, const char *folder, struct fault *why);
int __wrap_cover_names(struct cover *c, const char *folder, struct fault *why);
int __wrap_cover_path(struct cover *c, const char *path, struct fault *why);

static int note(const char *verb, const char *path)
{
	expect(count < MOST);
	snprintf(done[count++], sizeof(done[0]), "%s %s", verb, path);
	return failing && strcmp(path, failing) == 0 ? -EIO : 0;
}

int __wrap_cover_folder(struct cover *c, const char *folder, struct fault *why)
{
	(void)c, (void)why;
	return note("cover", folder);
}

int __wrap_cover_names(struct cover *c, const char *folder, struct fault *why)
{
	(void)c, (void)why;
	return note("names", folder);
}

int __wrap_cover_path(struct cover *c, const char *path, struct fault *why)
{
	(void)c, (void)why;
	return note("file", path);
}

static bool did(const char *what)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(done[i], what) == 0)
			return true;
	return false;
}

static unsigned how_often(const char *verb)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++)
		n += strncmp(done[i], verb, strlen(verb)) == 0;
	return n;
}

/* ---- an image -------------------------------------------------------------------------------- */

static char image[64];
static struct root root;
static struct fault why;

static void begin(void)
{
	strcpy(image, "/tmp/mete-image-XXXXXX");
	expect(mkdtemp(image) != NULL);
	expect_eq(root_open(image, &root, &why), 0);
	failing = NULL;
}

static void end(void)
{
	root_close(&root);
	folder_remove(image);
}

/* With the folders on the way to it. */
static void put(const char *path, const void *content, size_t size)
{
	char whole[512];
	int fd;

	snprintf(whole, sizeof(whole), "%s%s", image, path);
	for (char *at = whole + strlen(image) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(whole, 0755);
	}
	fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	expect(fd >= 0);
	expect_eq(write(fd, content, size), (ssize_t)size);
	close(fd);
}

static void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

static void put_library(const char *path, unsigned char class, Elf64_Half machine)
{
	Elf64_Ehdr head = {.e_ident = ELFMAG, .e_machine = machine};

	head.e_ident[EI_CLASS] = class;
	put(path, &head, sizeof(head));
}

static void put_glibc(const char *folder)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/libc.so.6", folder);
	put_library(path, ELFCLASS64, MACHINE);
}

static int look(const char *library_path)
{
	struct cover cover = {.root = &root};

	count = 0;
	root.steps = 0;
	return folders_cover(&cover, library_path, &why);
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST(names_are_made_wherever_a_glibc_of_this_machine_lies)
{
	begin();
	put_glibc("/usr/lib/" MULTIARCH);
	put_glibc("/usr/glibc-compat/lib");
	put_library("/lib/libc.so.6", ELFCLASS32, MACHINE);
	put_library("/lib64/libc.so.6", ELFCLASS64, EM_PPC64);
	put_text("/usr/lib64/libc.so.6", "/* GNU ld script */");
	put("/etc/ld.so.cache", "\0/opt/lib/libc.so.6", 20);
	put_glibc("/opt/lib");
	expect_eq(look(""), 0);
	expect(did("names /usr/lib/" MULTIARCH) && did("names /usr/glibc-compat/lib"));
	expect_eq(how_often("names"), 2);
	end();
}

TEST(where_no_usual_folder_has_a_glibc_the_cache_says_where_it_is)
{
	static const char cache[] = "ld.so-1.7.0\0/opt/gone/libc.so.6\0/opt/lib/libc.so.6\0"
				    "/opt/more/libc.so.6";

	begin();
	put("/etc/ld.so.cache", cache, sizeof(cache));
	put_glibc("/opt/lib");
	put_glibc("/opt/more");
	expect_eq(look(""), 0);
	expect(did("names /opt/lib"));
	expect_eq(how_often("names"), 1);
	end();
}

TEST(musl_has_names_in_its_first_folder_that_is_there)
{
	begin();
	put_text("/lib/ld-musl-" MUSL ".so.1", "");
	expect_eq(look(""), 0);
	expect(did("names /lib"));
	expect_eq(how_often("names"), 1);
	put_text("/etc/ld-musl-" MUSL ".path", "/nowhere\n/opt/a:/opt/b");
	put_text("/opt/a/x", "");
	put_text("/opt/b/x", "");
	expect_eq(look(""), 0);
	expect(did("names /opt/a") && did("cover /nowhere") && did("cover /opt/a") &&
	       did("cover /opt/b"));
	expect_eq(how_often("names"), 1);
	end();
}

/* ---- folders --------------------------------------------------------------------------------- */

TEST(usual_folders_are_covered_in_any_image)
{
	static const char *const some[] = {
		"cover /lib64",		  ("cover /usr/lib/" MULTIARCH),
		"cover /usr/lib",	  "cover /usr/local/lib64",
		"cover /usr/lib/wsl/lib", "cover /run/opengl-driver/lib"};

	begin();
	expect_eq(look(""), 0);
	for (size_t i = 0; i < ARRAY_SIZE(some); i++)
		if (!did(some[i]))
			fail_msg("no %s", some[i]);
	expect_eq(how_often("names"), 0);
	expect_eq(how_often("cover"), 17);
	end();
}

TEST(each_cuda_of_an_image_may_bring_a_driver)
{
	begin();
	put_text("/usr/local/cuda-12.9/version", "");
	put_text("/usr/local/cuda/version", "");
	put_text("/usr/local/cu/version", "");
	expect_eq(look(""), 0);
	expect(did("cover /usr/local/cuda-12.9/compat") && did("cover /usr/local/cuda/lib64") &&
	       did("cover /usr/local/cuda/compat/lib.real"));
	expect_eq(how_often("cover"), 17 + 2 * 5);
	end();
}

TEST(folders_of_the_linkers_configuration_are_covered_with_what_it_includes)
{
	begin();
	put_text("/etc/ld.so.conf", "include ld.so.conf.d/*.conf\n/last\n");
	put_text("/etc/ld.so.conf.d/a.conf", "/a # a comment\ninclude /opt/more.?");
	put_text("/etc/ld.so.conf.d/b.conf.old", "/old\n");
	put_text("/etc/ld.so.conf.d/.hidden.conf", "/hidden\n");
	put_text("/opt/more.1", "/more\ninclude /nowhere/*\n");
	put_text("/opt/more.12", "/not\n");
	expect_eq(look(""), 0);
	expect(did("cover /a") && did("cover /more") && did("cover /last"));
	expect_eq(how_often("cover"), 17 + 3);
	end();
}

TEST(a_configuration_that_includes_itself_is_a_failure)
{
	begin();
	put_text("/etc/ld.so.conf", "include /etc/ld.so.conf\n");
	expect_eq(look(""), -E2BIG);
	expect(strstr(why.text, "includes more than 256 files") != NULL);
	end();
}

TEST(a_text_that_is_too_large_is_a_failure_and_one_that_is_no_file_is_none)
{
	size_t size = FOLDERS_TEXT_MAX + 1;
	char *large = calloc(1, size);

	begin();
	put_text("/etc/ld.so.conf/x", "");
	expect_eq(look(""), 0);
	end();
	begin();
	put("/etc/ld.so.conf", large, size);
	expect_eq(look(""), -EFBIG);
	expect(strstr(why.text, "/etc/ld.so.conf is larger than 256 KiB") != NULL);
	put("/etc/ld.so.conf", large, size - 1);
	expect_eq(look(""), 0);
	end();
	free(large);
}

TEST(drivers_that_the_cache_knows_are_covered_wherever_they_are)
{
	static const char cache[] =
		"\0/opt/x/libcuda.so.1\0/opt/y/libnvidia-ml.so.1\0/opt/z/libc.so.6\0"
		"/opt/x/libnvcuvid.so.1";

	begin();
	put("/etc/ld.so.cache", cache, sizeof(cache));
	expect_eq(look(""), 0);
	expect(did("file /opt/x/libcuda.so.1") && did("file /opt/y/libnvidia-ml.so.1") &&
	       did("file /opt/x/libnvcuvid.so.1"));
	/* Each slash may begin a path. */
	expect(did("file /y/libnvidia-ml.so.1") && did("file /libcuda.so.1"));
	expect_eq(how_often("file"), 3 * 3);
	end();
}

TEST(a_library_path_is_read_as_either_linker_would)
{
	begin();
	expect_eq(look("/x:/y;/z"), 0);
	expect(did("cover /x") && did("cover /y") && did("cover /z") && did("cover /y;/z"));
	expect_eq(how_often("cover"), 17 + 5);
	end();
}

TEST(whatever_cannot_be_covered_is_a_failure)
{
	static const char *const folders[] = {"/lib64",
					      "/usr/local/cuda/lib64",
					      "/a",
					      "/opt/musl",
					      "/path",
					      "/opt/x/libcuda.so.1",
					      "/usr/lib64/nvidia",
					      ("/usr/lib/" MULTIARCH)};
	static const char cache[] = "\0/opt/x/libcuda.so.1";

	begin();
	put_glibc("/usr/lib/" MULTIARCH);
	put_text("/usr/local/cuda/version", "");
	put_text("/etc/ld.so.conf", "include x.conf\n");
	put_text("/etc/x.conf", "/a\n/b\n");
	put_text("/lib/ld-musl-" MUSL ".so.1", "");
	put_text("/etc/ld-musl-" MUSL ".path", "/opt/musl:/opt/more\n");
	put("/etc/ld.so.cache", cache, sizeof(cache));
	expect_eq(look("/path:/other"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		failing = folders[i];
		if (look("/path:/other") != -EIO)
			fail_msg("%s may fail", folders[i]);
		expect(*why.text);
	}
	end();
}
