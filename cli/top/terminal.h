/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal of `mete top`, by ncurses, which knows terminals and draws only changes.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "cli/grid.h"

/* -ENOTTY with a sentence: input or output is no terminal, or one of an unknown kind.
 * terminal_close(), and the process's end by SIGINT or SIGTERM, restore the terminal. */
must_check int terminal_open(struct fault *why);
void terminal_close(void);

/* The screen as it is now: marked, both sizes known. */
struct screen terminal_screen(void);

/* A part of the screen: lines from `row` on, as many as there is room for; the rest of the part is
 * cleared. `selected`: the line that stands out; -1: none. */
void terminal_paint(unsigned row, unsigned lines, const char *text, int selected);
/* All parts have been painted. */
void terminal_show(void);

/* The next key's name, as cli/top/keys.def has it: "q", "PageUp"; "Resize" when the terminal's size
 * has changed; "": none within `wait_ms`. NULL: there is no terminal any more. Until the next call.
 */
const char *terminal_key(int wait_ms);

/* Asks on the last line for a line of text. False: it was given up (Esc). */
bool terminal_ask(const char *question, char *ret_answer, size_t size);
