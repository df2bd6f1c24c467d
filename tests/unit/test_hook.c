/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of mete-hook: JSON of the runtime's, texts of the image's linkers, files below a root.
 */
#include <fcntl.h>
#include <string.h>

#include "hook/json.h"
#include "hook/linker.h"
#include "hook/root.h"
#include "tests/test.h"

static char value[PATH_MAX];

/* json_string() of {"root", "path"}; the text is exactly as large as it says. */
static int root_of(const char *text, size_t room)
{
	static const char *const path[] = {"root", "path", NULL};
	size_t size = strlen(text);
	owned(free) char *exact = malloc(size + !size);

	memcpy(exact, text, size);
	return json_string(exact, size, path, value, room);
}

TEST(a_text_is_found_by_its_path)
{
	expect_eq(root_of("{\"root\":{\"path\":\"rootfs\"}}", sizeof(value)), 0);
	expect_str(value, "rootfs");
	expect_eq(root_of(" { \"a\" : [1, {\"root\":{\"path\":\"no\"}}, \"}\\\"\"] , \"b\":null,\n"
			  "\"root\" : { \"readonly\":true, \"path\" :\t\"/x\" } } trailing",
			  sizeof(value)),
		  0);
	expect_str(value, "/x");
}

TEST(escapes_become_the_characters_they_stand_for)
{
	expect_eq(root_of("{\"root\":{\"path\":\"\\\"\\\\\\/"
			  "\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\ud83d"
			  "\\ude00\"}}",
			  sizeof(value)),
		  0);
	expect_str(value, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	/* A name may be written so, too. */
	expect_eq(root_of("{\"r\\u006fot\":{\"path\":\"x\"}}", sizeof(value)), 0);
}

TEST(a_missing_member_is_told_from_text_that_is_no_json)
{
	static const char *const absent[] = {"{}", "{\"root\":{}}", "{\"path\":\"x\"}",
					     "{\"root\":{\"paths\":\"x\"}}"};
	static const char *const bad[] = {
		"",
		"[]",
		"{",
		"{\"root\"",
		"{\"root\":",
		"{\"root\":{\"path\":",
		"{\"root\":{\"path\":\"x",
		"{\"root\":{\"path\":\"x\\",
		"{\"root\":{\"path\":\"\\q\"}}",
		"{\"root\":{\"path\":\"\\u00\"}}",
		"{\"root\":{\"path\":\"\\u0000\"}}",
		"{\"root\":{\"path\":\"\\ud800\"}}",
		"{\"root\":{\"path\":\"\\ud800\\u0041\"}}",
		"{\"root\":{\"path\":\"\\udc00\"}}",
		"{\"root\":{\"path\":\"a\nb\"}}",
		"{\"root\":{\"path\":7}}",
		"{\"root\":\"x\"}",
		"{\"a\":}",
		"{\"a\" \"b\"}",
		"{\"a\":[1,2},\"root\":{\"path\":\"x\"}}",
		"{\"a\":1 \"root\":{\"path\":\"x\"}}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		expect_eq(root_of(absent[i], sizeof(value)), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_eq(root_of(bad[i], sizeof(value)), -EINVAL);
}

TEST(a_text_that_does_not_fit_is_refused)
{
	expect_eq(root_of("{\"root\":{\"path\":\"1234567\"}}", 8), 0);
	expect_eq(root_of("{\"root\":{\"path\":\"12345678\"}}", 8), -ENAMETOOLONG);
	/* A name that is long is just another one. */
	expect_eq(
		root_of("{\"0123456789012345678901234567890123456789012345678901234567890123456789"
			"\":1,\"root\":{\"path\":\"x\"}}",
			8),
		0);
}

TEST(depth_is_bounded)
{
	char text[512] = "{\"a\":";

	memset(text + 5, '[', JSON_DEPTH_MAX);
	memset(text + 5 + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
	strcpy(text + 5 + 2 * JSON_DEPTH_MAX, ",\"root\":{\"path\":\"x\"}}");
	expect_eq(root_of(text, sizeof(value)), 0);
	memset(text + 5, '[', JSON_DEPTH_MAX + 1);
	memset(text + 6 + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX + 1);
	strcpy(text + 7 + 2 * JSON_DEPTH_MAX, ",\"root\":{\"path\":\"x\"}}");
	expect_eq(root_of(text, sizeof(value)), -EINVAL);
}

static int variable_of(const char *text)
{
	static const char *const path[] = {"process", "env", NULL};

	return json_element(text, strlen(text), path, "LD=", value, sizeof(value));
}

TEST(an_element_is_found_by_how_it_begins)
{
	expect_eq(variable_of("{\"process\":{\"env\":[\"A=1\",\"LD=\\/a:b\",\"LD=c\"]}}"), 0);
	expect_str(value, "/a:b");
	expect_eq(variable_of("{\"process\":{\"env\":[\"LD=\"]}}"), 0);
	expect_str(value, "");
	expect_eq(variable_of("{\"process\":{\"env\":[\"A=1\"]}}"), -ENOENT);
	expect_eq(variable_of("{\"process\":{\"env\":[]}}"), -ENOENT);
	expect_eq(variable_of("{\"process\":{}}"), -ENOENT);
	expect_eq(variable_of("{\"process\":{\"env\":[1]}}"), -EINVAL);
	expect_eq(variable_of("{\"process\":{\"env\":[\"LD=x"), -EINVAL);
	expect_eq(variable_of("{\"process\":{\"env\":[\"LD"), -EINVAL);
}

static struct linker_text text_of(const char *text)
{
	return (struct linker_text){text, text + strlen(text)};
}

TEST(rows_of_the_linkers_configuration)
{
	struct linker_text text =
		text_of("# nothing\n\n/usr/local/lib\n  /opt/x \t# why\n"
			"include  ld.so.conf.d/*.conf\r\n/opt/y=libc6\n/opt/a=b/c\n"
			"hwcap 1 nosegneg\nrelative/x\nincluded\ninclude\n/last");
	static const char *const wanted[] = {"/usr/local/lib", "/opt/x",     "ld.so.conf.d/*.conf",
					     "/opt/y",	       "/opt/a=b/c", "/last"};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		expect_eq(linker_next_entry(&text, value), i == 2 ? LINKER_INCLUDE : LINKER_FOLDER);
		expect_str(value, wanted[i]);
	}
	expect_eq(linker_next_entry(&text, value), LINKER_END);
}

TEST(a_row_that_is_longer_than_a_path_is_ignored)
{
	char line[PATH_MAX + 16];
	struct linker_text text = {line, line + sizeof(line)};

	memset(line, 'x', sizeof(line));
	line[0] = '/';
	memcpy(line + sizeof(line) - 8, "\n/opt\0/x", 8);
	expect_eq(linker_next_entry(&text, value), LINKER_END);
}

TEST(folders_of_a_path_variable)
{
	struct linker_text text = text_of("/a::relative:/b c\n/d\n");
	static const char *const wanted[] = {"/a", "/b c", "/d"};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		expect(linker_next_folder(&text, LINKER_MUSL_ENDS, value));
		expect_str(value, wanted[i]);
	}
	expect(!linker_next_folder(&text, LINKER_MUSL_ENDS, value));
}

TEST(glibc_parts_folders_by_semicolons_too_and_not_by_newlines)
{
	struct linker_text text = text_of("/a;/b:;relative;/c\n/d");
	static const char *const wanted[] = {"/a", "/b", "/c\n/d"};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		expect(linker_next_folder(&text, LINKER_GLIBC_ENDS, value));
		expect_str(value, wanted[i]);
	}
	expect(!linker_next_folder(&text, LINKER_GLIBC_ENDS, value));
}

TEST(paths_of_a_cache_are_found_among_its_numbers)
{
	static const char *const names[] = {"libcuda", "libnvidia-"};
	static const char cache[] =
		"glibc-ld.so.cache1.1\1\0/\2\3/usr/lib/libcuda.so.1\0libcuda.so.1\0"
		"/usr/lib/libc.so.6\0/x/libnvidia-ml.so.1";
	struct linker_text text = {cache, cache + sizeof(cache) - 1};

	/* Bytes that may be a number before the path are tried as its part, too. */
	expect(linker_next_cached(&text, names, ARRAY_SIZE(names), value));
	expect_str(value, "/\2\3/usr/lib/libcuda.so.1");
	expect(linker_next_cached(&text, names, ARRAY_SIZE(names), value));
	expect_str(value, "/usr/lib/libcuda.so.1");
	expect(linker_next_cached(&text, names, ARRAY_SIZE(names), value));
	expect_str(value, "/lib/libcuda.so.1");
	expect(linker_next_cached(&text, names, ARRAY_SIZE(names), value));
	expect_str(value, "/libcuda.so.1");
	expect(linker_next_cached(&text, names, ARRAY_SIZE(names), value));
	expect_str(value, "/x/libnvidia-ml.so.1");
	expect(linker_next_cached(&text, names, ARRAY_SIZE(names), value));
	expect_str(value, "/libnvidia-ml.so.1");
	expect(!linker_next_cached(&text, names, ARRAY_SIZE(names), value));
}

TEST(of_a_path_that_is_too_long_the_end_is_tried)
{
	static const char *const names[] = {"libcuda"};
	owned(free) char *cache = malloc(3 * PATH_MAX);
	struct linker_text text = {cache, cache + 3 * PATH_MAX};
	static const char end[] = "/opt/libcuda.so";

	memset(cache, 'x', 3 * PATH_MAX);
	cache[0] = '/';
	memcpy(cache + 3 * PATH_MAX - sizeof(end) + 1, end, sizeof(end) - 1);
	expect(linker_next_cached(&text, names, 1, value));
	expect_str(value, end);
}

TEST(a_librarys_name_has_a_stem)
{
	expect_eq(linker_stem("libcuda.so"), 7);
	expect_eq(linker_stem("libcuda.so.570.124.06"), 7);
	expect_eq(linker_stem("libcuda.sox"), 0);
	expect_eq(linker_stem("cuda.so.1"), 0);
	expect_eq(linker_stem("libcuda"), 0);
	expect_eq(linker_stem(""), 0);
	expect(linker_has_stem("libcuda.so.1", "libcuda"));
	expect(!linker_has_stem("libcudart.so.1", "libcuda"));
	expect(!linker_has_stem("libcuda.so.1", "libcud"));
}

static char folder[64];

static void given_a_root(struct root *root)
{
	struct fault why;

	strcpy(folder, "/tmp/mete-root-XXXXXX");
	expect(mkdtemp(folder) != NULL);
	expect_eq(root_open(folder, root, &why), 0);
	expect_eq(mkdirat(root->fd, "usr", 0755), 0);
	expect_eq(symlinkat("/usr", root->fd, "lib"), 0);
	expect_eq(symlinkat("../../../etc", root->fd, "out"), 0);
	expect_eq(symlinkat("/proc/self/root", root->fd, "magic"), 0);
	expect_eq(symlinkat("loop", root->fd, "loop"), 0);
	expect_eq(mkfifoat(root->fd, "pipe", 0600), 0);
	close(openat(root->fd, "usr/file", O_WRONLY | O_CREAT, 0600));
}

static void remove_root(struct root *root)
{
	static const char *const names[] = {"usr/file", "pipe", "loop", "magic", "out", "lib"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect_eq(unlinkat(root->fd, names[i], 0), 0);
	expect_eq(unlinkat(root->fd, "usr", AT_REMOVEDIR), 0);
	root_close(root);
	expect_eq(rmdir(folder), 0);
}

TEST(no_path_leads_out_of_a_root)
{
	struct root root;
	char path[PATH_MAX];
	int fd;

	given_a_root(&root);
	expect_eq(root_find(&root, "out/passwd", ROOT_FOLLOW), -ENOENT);
	expect_eq(root_find(&root, "/out", ROOT_FOLLOW), -ENOENT);
	expect_eq(root_find(&root, "/../../../../etc/passwd", ROOT_FOLLOW), -ENOENT);
	expect_eq(root_find(&root, "/magic/etc/passwd", ROOT_FOLLOW), -ENOENT);
	expect_eq(root_find(&root, "/loop", ROOT_FOLLOW), -ELOOP);
	expect(root_is_absent(-ELOOP) && !root_is_absent(-EACCES) && !root_is_absent(-E2BIG));
	fd = root_find(&root, "/lib/../../lib/file", ROOT_FOLLOW);
	expect(fd >= 0);
	expect_eq(root_path(&root, fd, path), 0);
	expect_str(path, "/usr/file");
	close(fd);
	fd = open("/", O_PATH);
	expect_eq(root_path(&root, fd, path), -ENOENT);
	close(fd);
	remove_root(&root);
}

TEST(only_files_are_read_and_no_more_of_them_than_wanted)
{
	owned(free) char *text = NULL;
	struct root root;
	size_t size = 0;
	int fd;

	given_a_root(&root);
	expect_eq(root_read(&root, "/pipe", 100, &text, &size), -EINVAL);
	expect_eq(root_read(&root, "/usr", 100, &text, &size), -EINVAL);
	expect_eq(root_read(&root, "/loop", 100, &text, &size), -ELOOP);
	fd = openat(root.fd, "usr/file", O_WRONLY);
	expect_eq(write(fd, "text", 4), 4);
	close(fd);
	expect_eq(root_read(&root, "/lib/file", 3, &text, &size), -EFBIG);
	expect_eq(root_read(&root, "/lib/file", 4, &text, &size), 0);
	expect_str(text, "text");
	expect_eq(size, 4);
	remove_root(&root);
}

static int count_names(void *owner, const char *name)
{
	unsigned *count = owner;

	expect(name[0] != '.');
	++*count;
	return 0;
}

static int stop(void *owner, const char *name)
{
	(void)owner;
	return strcmp(name, "pipe") == 0 ? -EXDEV : 0;
}

TEST(a_folders_names_are_told_and_the_search_comes_to_an_end)
{
	struct root root;
	unsigned count = 0;
	int fd;

	given_a_root(&root);
	fd = root_find(&root, "/", ROOT_FOLDER);
	expect_eq(root_list(&root, fd, count_names, &count), 0);
	expect_eq(count, 6);
	expect_eq(root_list(&root, fd, stop, NULL), -EXDEV);
	root.steps = ROOT_STEPS_MAX;
	expect_eq(root_find(&root, "/usr", ROOT_FOLDER), -E2BIG);
	expect_eq(root_list(&root, fd, count_names, &count), -E2BIG);
	close(fd);
	expect_eq(root_find(&root, "/usr/file", ROOT_FOLDER), -E2BIG);
	root.steps = 0;
	expect_eq(root_find(&root, "/usr/file", ROOT_FOLDER), -ENOTDIR);
	remove_root(&root);
}
