/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the files of an image's dynamic linkers, and knows the names of libraries. The texts are
 * the image's: whatever they hold, nothing here reads beyond their end. Pure.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum linker_kind {
	LINKER_END,
	LINKER_FOLDER,
	LINKER_INCLUDE, /* a path, in whose last part * and ? may stand */
};

/* A text that is read to its end, by one of the functions below. */
struct linker_text {
	const char *at, *end;
};

/* The next folder or include of an ld.so.conf; an entry that is longer than a path can be is left
 * out. */
enum linker_kind linker_next_entry(struct linker_text *text, char ret_value[PATH_MAX]);

/* Between folders: in musl's /etc/ld-musl-*.path and its LD_LIBRARY_PATH; in glibc's. */
#define LINKER_MUSL_ENDS  "\n:"
#define LINKER_GLIBC_ENDS ":;"

/* The next folder of such a text. */
bool linker_next_folder(struct linker_text *text, const char *ends, char ret_value[PATH_MAX]);

/*
 * The next path of an ld.so.cache whose file has one of the two names or one that begins with it:
 * "libcuda.so" also finds libcuda.so.1. Numbers lie between the paths, and may have the form of a
 * part of one: each slash between two NULs begins a path of its own.
 */
bool linker_next_cached(struct linker_text *text, const char *const names[], size_t count,
			char ret_value[PATH_MAX]);

/* The bytes before ".so" in "libcuda.so", "libcuda.so.1", "libcuda.so.570.124.06"; 0: no name of a
 * shared library. */
size_t linker_stem(const char *name);

/* Is it a library that begins with "lib" and has that stem: ("libcuda.so.1", "libcuda")? */
bool linker_has_stem(const char *name, const char *stem);
