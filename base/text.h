/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and names as people, terminals and parsers can read them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* "512MiB", "3.9GiB", "17B": the largest unit that leaves a number of at least 1. */
struct text_bytes {
	char text[24];
};
struct text_bytes text_bytes(uint64_t bytes);

/*
 * What a program or a person chose (a program's name, a tenant's, a value in a refusal) is made fit
 * to be shown: valid UTF-8 afterwards, without control characters, line ends, or marks that turn
 * the direction of the line. '?' stands for what it could not keep: one for a character, one for
 * each byte that is none. In place, never longer; a text that was fit stays as it was. Used
 * wherever a text comes in from outside or goes out to people.
 */
void text_make_plain(char *text);

/* How many of its bytes, at most `most`, can be shown without cutting a character in two. */
size_t text_fit(const char *text, size_t most);
