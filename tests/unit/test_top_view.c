/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/top/keys.h"
#include "cli/top/view.h"
#include "tests/test.h"

enum { ROOM = 40 };

struct world {
	struct wire_message row[ROOM];
	struct model_tenant tenant[ROOM];
	struct model model;
	struct view view;
};

/* A tenant within another one; they are made in the order of their numbers. */
static void add_tenant(struct world *world, uint32_t tenant, uint32_t outer, uint16_t had,
		       const char *name)
{
	struct wire_message *row = &world->row[world->model.rows.count++];
	struct model_tenant *made = &world->tenant[world->model.tenants++];

	row->code = WIRE_tenant_row;
	row->tenant_row.tenant = tenant;
	row->tenant_row.outer = outer;
	row->tenant_row.age = 1000 - tenant;
	wire_set_text(&row->tenant_row.name, name);
	*made = (struct model_tenant){&row->tenant_row, had, HISTORY_UNSAID};
	world->model.rows.row = world->row;
	world->model.tenant = world->tenant;
}

static void add_process(struct world *world, uint32_t tenant, uint32_t pid)
{
	struct wire_message *row = &world->row[world->model.rows.count++];

	row->code = WIRE_guest_row;
	row->guest_row.tenant = tenant;
	row->guest_row.pid = pid;
}

static void usual(struct world *world)
{
	*world = (struct world){.view.sort = VIEW_SORT_HAD};
	add_tenant(world, 1, 0, 100, "first");
	add_tenant(world, 2, 0, 900, "second");
	add_tenant(world, 3, 1, 500, "inner");
	add_tenant(world, 4, 3, 500, "innermost");
	add_process(world, 3, 31);
	add_process(world, 1, 12);
	add_process(world, 1, 11);
}

/* "2 3 4 1"; a process is its number, and what is within something has as many dots before it. */
static const char *lines(struct world *world, size_t height)
{
	static char text[ROOM * 12];
	struct fault why;
	size_t n = 0;

	text[0] = '\0';
	assert_int_equal(view_make(&world->view, &world->model, height, &why), 0);
	for (size_t i = 0; i < world->view.lines; i++) {
		const struct view_line *line = &world->view.line[i];
		uint32_t number = line->process ? line->process->pid : line->tenant->row->tenant;

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s%u", i ? " " : "",
				      (int)line->depth, "......", number);
	}
	return text;
}

TEST(tenants_are_sorted_and_equals_keep_their_order)
{
	struct world world;

	usual(&world);
	assert_string_equal(lines(&world, 10), "2 3 4 1");
	world.view.reverse = true;
	assert_string_equal(lines(&world, 10), "1 3 4 2");
	world.view = (struct view){
		.sort = VIEW_SORT_ID, .line = world.view.line, .room = world.view.room};
	assert_string_equal(lines(&world, 10), "1 2 3 4");
	world.view.sort = VIEW_SORT_AGE;
	assert_string_equal(lines(&world, 10), "1 2 3 4");
	view_free(&world.view);
}

TEST(in_the_tree_each_tenant_is_below_its_enclosing_one_and_its_processes)
{
	struct world world;

	usual(&world);
	world.view.tree = true;
	assert_string_equal(lines(&world, 10), "2 1 .11 .12 .3 ..31 ..4");
	view_free(&world.view);
}

TEST(a_tenant_whose_enclosing_one_is_filtered_away_stands_at_the_edge)
{
	struct world world;
	struct fault why;

	usual(&world);
	world.view.tree = true;
	assert_int_equal(ps_filter_read(&world.view.filter, "inner", &why), 0);
	assert_string_equal(lines(&world, 10), "3 .31 .4");
	assert_int_equal(ps_filter_read(&world.view.filter, "inner tenant=4", &why), 0);
	assert_string_equal(lines(&world, 10), "4");
	view_free(&world.view);
}

TEST(a_circle_of_tenants_ends)
{
	struct world world = {.view.tree = true};

	add_tenant(&world, 1, 2, 0, "a");
	add_tenant(&world, 2, 1, 0, "b");
	add_tenant(&world, 3, 3, 0, "c");
	assert_string_equal(lines(&world, 10), "3");
	view_free(&world.view);
}

TEST(the_selected_tenant_stays_selected_when_rows_move)
{
	struct world world;

	usual(&world);
	lines(&world, 10);
	view_step(&world.view, 3);
	assert_int_equal(view_selected(&world.view)->tenant->row->tenant, 1);
	world.tenant[0].had = 950; /* now it is the first */
	assert_string_equal(lines(&world, 10), "1 2 3 4");
	assert_int_equal(world.view.selected, 0);
	/* It has ended: the tenant that has its row is selected. */
	world.model.tenant++;
	world.model.tenants--;
	assert_string_equal(lines(&world, 10), "2 3 4");
	assert_int_equal(view_selected(&world.view)->tenant->row->tenant, 2);
	view_step(&world.view, 100);
	assert_int_equal(view_selected(&world.view)->tenant->row->tenant, 4);
	view_step(&world.view, -100);
	assert_int_equal(world.view.selected, 0);
	world.model.tenants = 0;
	lines(&world, 10);
	assert_null(view_selected(&world.view));
	view_step(&world.view, 1);
	assert_null(view_selected(&world.view));
	view_free(&world.view);
}

TEST(a_process_gives_way_to_its_tenant_when_processes_are_not_shown)
{
	struct world world;

	usual(&world);
	world.view.tree = true;
	lines(&world, 10);
	view_step(&world.view, 3);
	assert_int_equal(view_selected(&world.view)->process->pid, 12);
	world.view.tree = false;
	lines(&world, 10);
	assert_int_equal(view_selected(&world.view)->tenant->row->tenant, 1);
	assert_null(view_selected(&world.view)->process);
	view_free(&world.view);
}

TEST(the_selected_row_is_shown_and_no_row_is_left_empty)
{
	struct world world = {.view.sort = VIEW_SORT_ID};

	for (uint32_t i = 1; i <= 20; i++)
		add_tenant(&world, i, 0, 0, "t");
	lines(&world, 5);
	assert_int_equal(world.view.first, 0);
	view_step(&world.view, 12);
	lines(&world, 5);
	assert_int_equal(world.view.first, 8);
	view_step(&world.view, -1);
	lines(&world, 5);
	assert_int_equal(world.view.first, 8);
	lines(&world, 15); /* the terminal has grown */
	assert_int_equal(world.view.first, 5);
	lines(&world, 30);
	assert_int_equal(world.view.first, 0);
	lines(&world, 0);
	view_free(&world.view);
}

TEST(each_key_does_one_thing)
{
	assert_int_equal(keys_act("q"), KEYS_QUIT);
	assert_int_equal(keys_act("Up"), KEYS_UP);
	assert_int_equal(keys_act("U"), KEYS_NOTHING);
	assert_int_equal(keys_act("\\"), KEYS_FILTER);
	assert_int_equal(keys_act(""), KEYS_NOTHING);
	/* Each of the names leads to its own row: none stands twice. */
	for (size_t i = 0; i < keys_count; i++) {
		char names[60], *rest = names, *one;

		snprintf(names, sizeof(names), "%s", keys[i].keys);
		while ((one = strsep(&rest, " ")) != NULL)
			assert_int_equal(keys_act(one), i);
	}
}

TEST(a_filter_that_cannot_be_read_changes_nothing)
{
	struct ps_filter filter = {.count = 0};
	struct fault why;
	char much[PS_FILTER_SIZE + 10];

	assert_int_equal(ps_filter_read(&filter, " user=root,, gpu=0 ", &why), 0);
	assert_int_equal(filter.count, 2);
	assert_int_equal(ps_filter_read(&filter, "uid=0", &why), -EINVAL);
	assert_string_equal(why.text,
			    "filter 'uid=': accepted are user=, tenant=, gpu= and parts of names");
	assert_int_equal(ps_filter_read(&filter, "gpu=", &why), -EINVAL);
	assert_int_equal(ps_filter_read(&filter, "a b c d e f g h i j k l m n o p q", &why),
			 -E2BIG);
	memset(much, 'a', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	assert_int_equal(ps_filter_read(&filter, much, &why), -EINVAL);
	assert_int_equal(filter.count, 2);
	assert_string_equal(filter.text, " user=root,, gpu=0 ");
	assert_int_equal(ps_filter_read(&filter, "", &why), 0);
	assert_int_equal(filter.count, 0);
}
