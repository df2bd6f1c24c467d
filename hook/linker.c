/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/linker.h"

#include <string.h>

#include "base/macros.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* The text before the next of `ends`, blanks around it left out. False at the end of the text. */
static bool next_part(struct linker_text *text, const char *ends, const char **ret_begin,
		      size_t *ret_size)
{
	const char *begin = text->at, *end = begin;

	if (begin >= text->end)
		return false;
	while (end < text->end && (!*end || !strchr(ends, *end)))
		end++;
	text->at = end < text->end ? end + 1 : end;
	while (begin < end && is_blank(*begin))
		begin++;
	while (end > begin && is_blank(end[-1]))
		end--;
	*ret_begin = begin;
	*ret_size = (size_t)(end - begin);
	return true;
}

/* False for a text that is no path: empty, too long, or with a NUL in it. */
static bool copy_path(const char *begin, size_t size, char ret_value[PATH_MAX])
{
	if (size == 0 || size >= PATH_MAX || memchr(begin, '\0', size))
		return false;
	memcpy(ret_value, begin, size);
	ret_value[size] = '\0';
	return true;
}

/* "/usr/lib=libc6" is the folder /usr/lib. */
static size_t without_type(const char *begin, size_t size)
{
	const char *mark = memrchr(begin, '=', size);

	if (!mark || memchr(mark, '/', size - (size_t)(mark - begin)))
		return size;
	while (mark > begin && is_blank(mark[-1]))
		mark--;
	return (size_t)(mark - begin);
}

enum linker_kind linker_next_entry(struct linker_text *text, char ret_value[PATH_MAX])
{
	static const char include[] = "include";
	const char *begin, *comment;
	size_t size, n = sizeof(include) - 1;

	while (next_part(text, "\n", &begin, &size)) {
		comment = memchr(begin, '#', size);
		if (comment)
			size = (size_t)(comment - begin);
		while (size && is_blank(begin[size - 1]))
			size--;
		if (size > n && memcmp(begin, include, n) == 0 && is_blank(begin[n])) {
			begin += n;
			size -= n;
			while (size && is_blank(*begin))
				begin++, size--;
			if (copy_path(begin, size, ret_value))
				return LINKER_INCLUDE;
		} else if (size && *begin == '/' &&
			   copy_path(begin, without_type(begin, size), ret_value)) {
			return LINKER_FOLDER;
		}
	}
	return LINKER_END;
}

bool linker_next_folder(struct linker_text *text, const char *ends, char ret_value[PATH_MAX])
{
	const char *begin;
	size_t size;

	while (next_part(text, ends, &begin, &size))
		if (size && *begin == '/' && copy_path(begin, size, ret_value))
			return true;
	return false;
}

static bool has_name(const char *path, const char *end, const char *const names[], size_t count)
{
	const char *file = (const char *)memrchr(path, '/', (size_t)(end - path)) + 1;

	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(names[i]);

		if ((size_t)(end - file) >= n && memcmp(file, names[i], n) == 0)
			return true;
	}
	return false;
}

bool linker_next_cached(struct linker_text *text, const char *const names[], size_t count,
			char ret_value[PATH_MAX])
{
	while (text->at < text->end) {
		const char *begin = memchr(text->at, '/', (size_t)(text->end - text->at)), *end;

		if (!begin)
			break;
		end = memchr(begin, '\0', (size_t)(text->end - begin));
		if (!end)
			end = text->end;
		if (end - begin >= PATH_MAX) {
			/* Too long: only its end can be a path. */
			text->at = end - PATH_MAX + 1;
			continue;
		}
		text->at = begin + 1;
		if (!has_name(begin, end, names, count)) {
			text->at = end;
			continue;
		}
		if (copy_path(begin, (size_t)(end - begin), ret_value))
			return true;
	}
	text->at = text->end;
	return false;
}

size_t linker_stem(const char *name)
{
	const char *mark = strstr(name, ".so");

	if (!mark || strncmp(name, "lib", 3) != 0 || (mark[3] != '\0' && mark[3] != '.'))
		return 0;
	return (size_t)(mark - name);
}

bool linker_has_stem(const char *name, const char *stem)
{
	size_t n = linker_stem(name);

	return n && n == strlen(stem) && memcmp(name, stem, n) == 0;
}
