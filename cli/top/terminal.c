/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE_EXTENDED
#include "cli/top/terminal.h"

#include <curses.h>
#include <limits.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum {
	ESCAPE_MS = 50, /* bytes that follow an Esc within this time are part of a key */
	ESCAPE = 27,
	PAIR_GOOD = 1,
	PAIR_WARM,
	PAIR_BAD,
};

static SCREEN *state_screen;

static bool wants_colour(void)
{
	const char *no_colour = getenv("NO_COLOR");

	return has_colors() && !(no_colour && *no_colour);
}

int terminal_open(struct fault *why)
{
	const char *kind = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return fault_set(why, -ENOTTY, "it needs a terminal; `mete ps` prints once");
	/* Without a locale, characters beyond ASCII would be shown as codes. */
	if (!setlocale(LC_ALL, "") || MB_CUR_MAX == 1)
		setlocale(LC_CTYPE, screen_now().ascii ? "C" : "C.UTF-8");
	state_screen = newterm(NULL, stdout, stdin);
	if (!state_screen)
		return fault_set(
			why, -ENOTTY,
			"a terminal of the kind '%.60s' (TERM) is not known here; `mete ps "
			"--watch` needs no such knowledge",
			kind ? kind : "");
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	keypad(stdscr, true);
	curs_set(0);
	if (wants_colour()) {
		start_color();
		use_default_colors();
		init_pair(PAIR_GOOD, COLOR_GREEN, -1);
		init_pair(PAIR_WARM, COLOR_YELLOW, -1);
		init_pair(PAIR_BAD, COLOR_RED, -1);
	}
	return 0;
}

void terminal_close(void)
{
	endwin();
	delscreen(state_screen);
	state_screen = NULL;
}

struct screen terminal_screen(void)
{
	struct screen screen = screen_now();

	screen.width = (unsigned)COLS;
	screen.height = (unsigned)LINES;
	screen.colour = false;
	screen.marked = true;
	screen.ascii = screen.ascii || MB_CUR_MAX == 1;
	return screen;
}

/* Without colours, bad values are still bold. */
static attr_t attribute(enum grid_style style)
{
	bool colour = wants_colour();

	switch (style) {
	case GRID_GOOD:
		return colour ? (attr_t)COLOR_PAIR(PAIR_GOOD) : A_NORMAL;
	case GRID_WARM:
		return colour ? (attr_t)COLOR_PAIR(PAIR_WARM) : A_NORMAL;
	case GRID_BAD:
		return colour ? (attr_t)COLOR_PAIR(PAIR_BAD) : A_BOLD;
	case GRID_DIM:
		return A_DIM;
	case GRID_HEAD:
		return A_BOLD;
	case GRID_PLAIN:
		break;
	}
	return A_NORMAL;
}

static bool is_mark(char c)
{
	return c >= GRID_MARK && c <= GRID_MARK + GRID_HEAD;
}

/* A line up to its end; styles begin and end at marks. */
static void paint_line(int row, const char *text, size_t size, bool selected)
{
	attr_t always = selected ? A_REVERSE : A_NORMAL;

	move(row, 0);
	attrset((int)always);
	for (size_t at = 0, next; at < size; at = next) {
		if (is_mark(text[at])) {
			enum grid_style style = (enum grid_style)(text[at] - GRID_MARK);

			attrset((int)(always | attribute(style)));
			next = at + 1;
			continue;
		}
		for (next = at; next < size && !is_mark(text[next]);)
			next++;
		addnstr(text + at, (int)(next - at));
	}
	/* After a line that fills the terminal, the cursor is on the next one. */
	if (getcury(stdscr) == row && selected)
		chgat(-1, A_REVERSE, 0, NULL);
	else if (getcury(stdscr) == row)
		clrtoeol();
	attrset(A_NORMAL);
}

void terminal_paint(unsigned row, unsigned lines, const char *text, int selected)
{
	for (unsigned i = 0; i < lines && row + i < (unsigned)LINES; i++) {
		size_t size = strcspn(text, "\n");

		move((int)(row + i), 0);
		clrtoeol();
		paint_line((int)(row + i), text, size, selected == (int)i);
		text += size + (text[size] != '\0');
	}
}

void terminal_show(void)
{
	refresh();
}

static const struct {
	int code;
	const char *name;
} named[] = {
	{KEY_UP, "Up"},	    {KEY_DOWN, "Down"},	  {KEY_PPAGE, "PageUp"},  {KEY_NPAGE, "PageDown"},
	{KEY_HOME, "Home"}, {KEY_END, "End"},	  {KEY_F(1), "F1"},	  {KEY_F(4), "F4"},
	{KEY_F(5), "F5"},   {KEY_F(6), "F6"},	  {KEY_F(9), "F9"},	  {KEY_F(10), "F10"},
	{'\n', "Enter"},    {'\r', "Enter"},	  {KEY_ENTER, "Enter"},	  {ESCAPE, "Esc"},
	{KEY_LEFT, "Left"}, {KEY_RIGHT, "Right"}, {KEY_RESIZE, "Resize"}, {3, "Ctrl-C"},
};

const char *terminal_key(int wait_ms)
{
	static char letter[2];
	int code;

	timeout(wait_ms);
	code = getch();
	if (code == ERR)
		return isatty(STDIN_FILENO) ? "" : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(named); i++)
		if (named[i].code == code)
			return named[i].name;
	letter[0] = code > ' ' && code < 127 ? (char)code : '\0';
	return letter[0] ? letter : "Other";
}

static void paint_question(const char *question, const char *answer)
{
	int row = LINES - 1;

	move(row, 0);
	clrtoeol();
	attrset(A_BOLD);
	addstr(question);
	attrset(A_NORMAL);
	addstr(answer);
	refresh();
}

/* Removes the last character with all of its bytes. */
static void take_back(char *text)
{
	size_t n = strlen(text);

	while (n && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
		n--;
	text[n ? n - 1 : 0] = '\0';
}

static void append(char *text, size_t size, wint_t point)
{
	size_t n = strlen(text);
	char bytes[MB_LEN_MAX + 1] = "";
	mbstate_t shift = {0};
	size_t wide = wcrtomb(bytes, (wchar_t)point, &shift);

	if (point >= ' ' && point != 127 && wide != (size_t)-1 && n + wide < size)
		memcpy(text + n, bytes, wide + 1);
}

bool terminal_ask(const char *question, char *ret_answer, size_t size)
{
	bool done = false, given = false;

	curs_set(1);
	timeout(-1);
	while (!done) {
		wint_t point = 0;
		int kind;

		paint_question(question, ret_answer);
		kind = get_wch(&point);
		if (kind == KEY_CODE_YES && point == KEY_BACKSPACE)
			take_back(ret_answer);
		else if (kind == KEY_CODE_YES && point != KEY_ENTER)
			continue;
		else if (kind == ERR || point == ESCAPE)
			done = true;
		else if (point == '\n' || point == '\r' || point == KEY_ENTER)
			done = given = true;
		else if (point == 127 || point == '\b')
			take_back(ret_answer);
		else
			append(ret_answer, size, point);
	}
	curs_set(0);
	return given;
}
