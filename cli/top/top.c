/* SPDX-License-Identifier: Apache-2.0 */
/* mete top: the screen, again and again, until a key ends it. */
#include <string.h>
#include <time.h>

#include "base/least.h"
#include "cli/top/acts.h"
#include "cli/top/news.h"
#include "cli/top/page.h"
#include "cli/top/terminal.h"
#include "cli/top/users.h"
#include "cli/values.h"

static const uint64_t second_ns = 1000000000;

struct top {
	struct remote remote; /* whose tenants they are */
	struct model model;
	struct view view;
	uint64_t interval_ns, next_ns; /* between two refreshes; when the next one is due */
	struct news news;
	bool detail, help;
	enum shows { SHOWS_TENANTS, SHOWS_EVENTS, SHOWS_USERS } shows;
	size_t first_user;    /* how many are scrolled past */
	char said[ACTS_SAID]; /* the outcome of the last act */
	struct screen screen;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * second_ns + (uint64_t)now.tv_nsec;
}

static struct page page_of(const struct top *top)
{
	return (struct page){.screen = top->screen,
			     .model = &top->model,
			     .view = &top->view,
			     .unit = ps_unit(&top->model.rows)};
}

/* One part after the other is written to memory, and painted where it belongs. */
struct painter {
	struct page page;
	struct page_parts parts;
	char *text;
	size_t size;
	unsigned row;
};

static int begin_part(struct painter *painter)
{
	painter->text = NULL;
	painter->page.out = open_memstream(&painter->text, &painter->size);
	return painter->page.out ? 0 : -ENOMEM;
}

static void end_part(struct painter *painter, unsigned lines, int selected)
{
	if (fclose(painter->page.out) == 0 && painter->text)
		terminal_paint(painter->row, lines, painter->text, selected);
	free(painter->text);
	painter->row += lines;
}

static void put_foot(struct painter *painter, const struct top *top)
{
	static const char usual[] =
		"q quit  h help  <> sort  t tree  f filter  d detail  e events  "
		"u users  s set  z suspend  r resume  T end";
	const char *text = top->said[0] ? top->said : usual;
	enum grid_style style = top->said[0] ? GRID_WARM : GRID_DIM;

	grid_begin(painter->page.out, &top->screen, style);
	grid_field(painter->page.out, &top->screen, text, top->screen.width);
	grid_end(painter->page.out, &top->screen, style);
}

static int paint_tenants(struct painter *painter)
{
	int selected;

	if (begin_part(painter) < 0)
		return -ENOMEM;
	selected = page_table(&painter->page, &painter->parts);
	end_part(painter, painter->parts.table + 1, selected);
	if (begin_part(painter) < 0)
		return -ENOMEM;
	page_detail(&painter->page, &painter->parts);
	end_part(painter, painter->parts.detail, -1);
	return 0;
}

/* Instead of the tenants. */
static int paint_others(struct top *top, struct painter *painter)
{
	unsigned lines = painter->parts.table + 1 + painter->parts.detail;

	if (begin_part(painter) < 0)
		return -ENOMEM;
	if (top->shows == SHOWS_EVENTS)
		news_write(&painter->page, &top->news, lines);
	else
		users_write(&painter->page, &top->first_user, lines);
	end_part(painter, lines, -1);
	return 0;
}

static int paint_screen(struct top *top, struct painter *painter, struct fault *why)
{
	if (view_make(&top->view, &top->model, painter->parts.table, why) < 0 ||
	    begin_part(painter) < 0)
		return -ENOMEM;
	page_head(&painter->page, (double)top->interval_ns / (double)second_ns);
	end_part(painter, 1, -1);
	if (begin_part(painter) < 0)
		return -ENOMEM;
	page_devices(&painter->page, &painter->parts);
	end_part(painter, painter->parts.devices, -1);
	if (begin_part(painter) < 0)
		return -ENOMEM;
	page_status(&painter->page, top->shows == SHOWS_TENANTS ? &painter->parts : NULL);
	end_part(painter, 1, -1);
	return top->shows == SHOWS_TENANTS ? paint_tenants(painter) : paint_others(top, painter);
}

static int paint(struct top *top, struct fault *why)
{
	struct painter painter = {.row = 0};
	int r;

	top->screen = terminal_screen();
	painter.page = page_of(top);
	painter.parts = page_divide(&painter.page, top->detail);
	if (top->help) {
		r = begin_part(&painter);
		if (r == 0) {
			page_help(&painter.page);
			end_part(&painter, top->screen.height - 1, -1);
		}
	} else {
		r = paint_screen(top, &painter, why);
	}
	painter.row = top->screen.height - 1;
	if (r < 0 || begin_part(&painter) < 0)
		return fault_set(why, -ENOMEM, "out of memory");
	put_foot(&painter, top);
	end_part(&painter, 1, -1);
	terminal_show();
	return 0;
}

static void ask_filter(struct top *top)
{
	char text[PS_FILTER_SIZE];
	struct fault why;

	snprintf(text, sizeof(text), "%s", top->view.filter.text);
	if (terminal_ask("only: ", text, sizeof(text)) &&
	    ps_filter_read(&top->view.filter, text, &why) < 0)
		snprintf(top->said, sizeof(top->said), "%.250s", why.text);
}

static void sort_by(struct view *view, unsigned step)
{
	view->sort = (view->sort + step) % VIEW_SORTS;
	view->reverse = false;
}

static void sort_before(struct top *top)
{
	sort_by(&top->view, VIEW_SORTS - 1);
}

static void sort_after(struct top *top)
{
	sort_by(&top->view, 1);
}

static void turn_round(struct top *top)
{
	top->view.reverse = !top->view.reverse;
}

static void change_tree(struct top *top)
{
	top->view.tree = !top->view.tree;
}

static void change_detail(struct top *top)
{
	top->detail = !top->detail;
}

static void change_events(struct top *top)
{
	top->shows = top->shows == SHOWS_EVENTS ? SHOWS_TENANTS : SHOWS_EVENTS;
	top->news.first = 0;
	top->next_ns = 0; /* asks at once */
}

static void change_users(struct top *top)
{
	top->shows = top->shows == SHOWS_USERS ? SHOWS_TENANTS : SHOWS_USERS;
	top->first_user = 0;
}

static void show_help(struct top *top)
{
	top->help = true;
}

/* How far a key scrolls; a page is half of the screen. */
static const struct {
	long lines, pages;
	bool all;
} steps[KEYS_NOTHING] = {
	[KEYS_UP] = {.lines = -1},	  [KEYS_DOWN] = {.lines = 1},
	[KEYS_PAGE_UP] = {.pages = -1},	  [KEYS_PAGE_DOWN] = {.pages = 1},
	[KEYS_FIRST] = {-1, .all = true}, [KEYS_LAST] = {1, .all = true},
};

static void (*const handlers[KEYS_NOTHING])(struct top *) = {
	[KEYS_SORT_PREV] = sort_before, [KEYS_SORT_NEXT] = sort_after,
	[KEYS_REVERSE] = turn_round,	[KEYS_TREE] = change_tree,
	[KEYS_FILTER] = ask_filter,	[KEYS_DETAIL] = change_detail,
	[KEYS_HELP] = show_help,	[KEYS_EVENTS] = change_events,
	[KEYS_USERS] = change_users,
};

static void act_on(struct top *top, enum keys_act act)
{
	const struct view_line *line = view_selected(&top->view);

	if (!line) {
		snprintf(top->said, sizeof(top->said), "no tenant is selected");
		return;
	}
	acts_do(act, &top->remote, line, top->said);
	top->next_ns = 0; /* refreshes at once, to show the outcome */
}

/* The list itself keeps it within its end. */
static void step_users(struct top *top, long lines)
{
	if (lines < 0)
		top->first_user = beyond(top->first_user, (size_t)-lines);
	else
		top->first_user += (size_t)lines;
}

static void step(struct top *top, enum keys_act act)
{
	long all = top->shows == SHOWS_EVENTS ? NEWS_MOST : (long)top->view.lines;
	long lines = steps[act].lines * (steps[act].all ? all : 1) +
		     steps[act].pages * (long)top->screen.height / 2;

	if (top->shows == SHOWS_EVENTS)
		news_step(&top->news, lines);
	else if (top->shows == SHOWS_USERS)
		step_users(top, lines);
	else
		view_step(&top->view, lines);
}

/* 1: it ends. */
static int press(struct top *top, const char *key)
{
	enum keys_act act = keys_act(key);

	if (!*key || strcmp(key, "Resize") == 0)
		return 0;
	top->said[0] = '\0';
	if (top->help) {
		top->help = false;
		return 0;
	}
	if (act == KEYS_QUIT)
		return 1;
	if (act == KEYS_NOTHING)
		return 0;
	if (acts_is(act) && top->shows != SHOWS_TENANTS)
		snprintf(top->said, sizeof(top->said), "%c leads back to the tenants",
			 top->shows == SHOWS_EVENTS ? 'e' : 'u');
	else if (acts_is(act))
		act_on(top, act);
	else if (handlers[act])
		handlers[act](top);
	else
		step(top, act);
	return 0;
}

static int refresh_if_due(struct top *top, struct fault *why)
{
	uint64_t now = now_ns();
	int r;

	if (now < top->next_ns)
		return 0;
	r = model_refresh(&top->model, &top->remote, &top->view.filter, why);
	if (r == 0 && top->shows == SHOWS_EVENTS)
		r = news_refresh(&top->news, &top->remote, why);
	/* Counted from now: the time that a slow refresh took is not made up for. */
	top->next_ns = now_ns() + top->interval_ns;
	return r;
}

static int run(struct top *top, struct fault *why)
{
	const char *key;

	do {
		uint64_t now;

		if (refresh_if_due(top, why) < 0 || paint(top, why) < 0)
			return -1;
		now = now_ns();
		key = terminal_key(now < top->next_ns ? (int)((top->next_ns - now) / 1000000) + 1
						      : 0);
	} while (key && !press(top, key));
	return 0;
}

static void top_free_owned(struct top *top)
{
	model_free(&top->model);
	news_free(&top->news);
	view_free(&top->view);
	remote_close(&top->remote);
}

static int read_options(const struct cli_call *call, struct top *top, struct fault *why)
{
	const char *sort = cli_value(call, "sort"), *filter = cli_value(call, "filter");
	int r = remote_read(&top->remote, call, why);

	if (r == 0)
		r = values_seconds(call, "interval", second_ns / 10, 3600 * second_ns,
				   &top->interval_ns, why);
	top->view.sort = VIEW_SORT_HAD;
	top->view.tree = cli_value(call, "tree") != NULL;
	if (r == 0 && sort && view_sort_find(sort, &top->view.sort, why) < 0) {
		fault_within(why, "--sort");
		r = -EINVAL;
	}
	if (r == 0 && filter)
		r = ps_filter_read(&top->view.filter, filter, why);
	return r;
}

int top_main(const struct cli_call *call)
{
	owned(top_free) struct top top = {.interval_ns = second_ns, .detail = true};
	struct fault why;
	int r;

	if (call->argc)
		return cli_complain(call, CLI_USAGE, "'%s': top takes no arguments", call->argv[0]);
	if (read_options(call, &top, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	r = 0;
	/* Connects before the screen opens, so that a failure's sentence stays visible. */
	if (top.remote.node)
		r = remote_connect(&top.remote, &why);
	if (r == 0)
		r = terminal_open(&why);
	if (r < 0)
		return cli_fail(call, 1, &why);
	r = run(&top, &why);
	terminal_close();
	return r < 0 ? cli_fail(call, 1, &why) : 0;
}
