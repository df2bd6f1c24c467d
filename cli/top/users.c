/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/users.h"

#include <string.h>

#include "base/least.h"
#include "cli/top/tally.h"

enum { HEADINGS = 2, LAST_GPU = 63 };

enum column { USER, TENANTS, WAIT, HAD, DUE, USED, IN_HOST, GPUS, COLUMNS };

static const struct grid_column columns[COLUMNS] = {
	[USER] = {"USER", .least = 8, .rank = 5},
	[TENANTS] = {"TENANTS", .right = true, .may_go = true, .rank = 6},
	[WAIT] = {"WAIT", .right = true, .may_go = true, .rank = 4},
	[HAD] = {"HAD", .right = true},
	[DUE] = {"DUE", .right = true, .may_go = true, .rank = 3},
	[USED] = {"USED", .right = true},
	[IN_HOST] = {"IN HOST", .right = true, .may_go = true, .rank = 7},
	[GPUS] = {"GPUS", .least = 4, .may_go = true, .rank = 8},
};

/* Of one user. */
struct sum {
	uint32_t owner, tenants, waiting;
	uint32_t had, due; /* per mille of one device's last second: above 1,000 on several */
	uint64_t used, out;
	uint64_t gpus; /* a bit for each; the last one is of all from it on */
};

static struct sum *find(struct sum *sums, size_t *count, uint32_t owner)
{
	for (size_t i = 0; i < *count; i++)
		if (sums[i].owner == owner)
			return &sums[i];
	sums[*count] = (struct sum){.owner = owner};
	return &sums[(*count)++];
}

static uint32_t said(uint16_t milli)
{
	return milli == HISTORY_UNSAID ? 0 : milli;
}

static void count_in(struct sum *sum, const struct model_tenant *m)
{
	const struct wire_tenant_row *t = m->row;

	sum->had += said(m->had);
	/* Where no turns are taken, a tenant is due whatever it had. */
	sum->due += said(t->governed ? m->due : m->had);
	sum->used += ps_held(t);
	sum->out += t->out;
	sum->gpus |= UINT64_C(1) << least(t->device, LAST_GPU);
}

static void add_tenant(const struct page *page, size_t first, size_t next, enum tally_state state,
		       struct sum *sums, size_t *count)
{
	struct sum *sum = NULL;

	for (size_t i = first; i < next; i++) {
		if (!tally_is_shown(page, i))
			continue;
		if (!sum) {
			sum = find(sums, count, page->model->tenant[i].row->owner);
			sum->tenants++;
			sum->waiting += state == TALLY_WAITS;
		}
		count_in(sum, &page->model->tenant[i]);
	}
}

static size_t add_up(const struct page *page, struct sum *sums)
{
	size_t count = 0;

	for (size_t i = 0, next; i < page->model->tenants; i = next) {
		enum tally_state state = tally_tenant(page, i, &next);

		add_tenant(page, i, next, state, sums, &count);
	}
	return count;
}

static int compare(const void *a, const void *b)
{
	const struct sum *one = a, *other = b;

	if (one->had != other->had)
		return one->had < other->had ? 1 : -1;
	if (one->used != other->used)
		return one->used < other->used ? 1 : -1;
	return one->owner < other->owner ? -1 : 1;
}

/* "0 2 3 63+" */
static void write_gpus(uint64_t gpus, char *ret_text, size_t size)
{
	size_t n = 0;

	*ret_text = '\0';
	for (unsigned i = 0; i <= LAST_GPU && n < size; i++)
		if (gpus >> i & 1)
			n += (size_t)snprintf(ret_text + n, size - n, "%s%u%s", n ? " " : "", i,
					      i == LAST_GPU ? "+" : "");
}

static void add_user(struct grid *grid, const struct page *page, const struct sum *sum)
{
	uint64_t used = ps_steps(page->unit, sum->used, TEXT_UP);
	char gpus[256];

	write_gpus(sum->gpus, gpus, sizeof(gpus));
	grid_add(grid, GRID_PLAIN, "%s", ps_user_of(&page->model->rows, sum->owner).text);
	grid_add(grid, GRID_PLAIN, "%u", sum->tenants);
	grid_add(grid, sum->waiting ? GRID_WARM : GRID_PLAIN, "%u", sum->waiting);
	grid_add(grid, GRID_PLAIN, "%u%%", (sum->had + 5) / 10);
	grid_add(grid, GRID_PLAIN, "%u%%", (sum->due + 5) / 10);
	grid_add(grid, GRID_PLAIN, "%s", ps_amount(page->unit, used).text);
	grid_add(grid, GRID_PLAIN, "%s",
		 sum->out ? ps_amount(page->unit, ps_steps(page->unit, sum->out, TEXT_UP)).text
			  : "");
	grid_add(grid, GRID_PLAIN, "%s", gpus);
}

static void write_table(const struct page *page, const struct sum *sums, size_t count)
{
	owned(grid_done) struct grid grid;

	grid_init(&grid, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < count; i++)
		add_user(&grid, page, &sums[i]);
	grid_print(&grid, page->out, &page->screen);
}

void users_write(const struct page *page, size_t *first, unsigned lines)
{
	owned(free) struct sum *sums = calloc(page->model->tenants + 1, sizeof(*sums));
	size_t count = sums ? add_up(page, sums) : 0;

	grid_begin(page->out, &page->screen, GRID_HEAD);
	grid_field(page->out, &page->screen,
		   "users: their tenants' sums, of all GPUs (100% is one GPU); u: the tenants",
		   page->screen.width);
	grid_end(page->out, &page->screen, GRID_HEAD);
	fputc('\n', page->out);
	if (!count) {
		fputs(page->view->filter.count ? "no tenant fits the filter\n" : "no tenants\n",
		      page->out);
		return;
	}
	qsort(sums, count, sizeof(*sums), compare);
	*first = least(*first, count - 1);
	write_table(page, sums + *first, least(count - *first, beyond(lines, HEADINGS)));
}
