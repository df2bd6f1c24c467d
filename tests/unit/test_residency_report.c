/* SPDX-License-Identifier: Apache-2.0 */
#include "core/residency/residency_report.h"

#include "tests/test.h"

enum { CHUNK = 64 };

static const struct residency_order told = {.leave = 1000, .enter = 500, .drop = 300};
static const struct residency_report before = {
	.left = 200, .copied = 100, .entered = 100, .returned = 50, .dropped = 100, .failed = 10};
static const struct residency_has has = {
	.here_bytes = 2000, .out_bytes = 1000, .given_bytes = 400, .chunk_bytes = CHUNK};

static enum residency_doubt of(struct residency_report said)
{
	return residency_doubt(&told, &before, &said, &has);
}

TEST(a_report_of_an_ordered_move_is_believed)
{
	struct residency_report said = before;

	expect_eq(of(said), RESIDENCY_BELIEVED);
	said = (struct residency_report){.left = 1000,
					 .copied = 1000,
					 .entered = 500,
					 .returned = 50,
					 .dropped = 300,
					 .failed = 10};
	said.returned = 0;
	expect_eq(of(said), RESIDENCY_TOOK_BACK);
	said = (struct residency_report){.left = 1000,
					 .copied = 1000,
					 .entered = 450,
					 .returned = 50,
					 .dropped = 300,
					 .failed = 10};
	expect_eq(of(said), RESIDENCY_BELIEVED);
}

TEST(the_last_block_may_be_larger_than_the_rest_of_the_order)
{
	struct residency_report said = before;

	said.left = told.leave + CHUNK - 1;
	expect_eq(of(said), RESIDENCY_BELIEVED);
	said.left++;
	expect_eq(of(said), RESIDENCY_LEFT_MORE);
	said = before;
	said.dropped = told.drop + CHUNK - 1;
	expect_eq(of(said), RESIDENCY_BELIEVED);
	said.dropped++;
	expect_eq(of(said), RESIDENCY_GAVE_MORE);
	/* Bytes that come are bounded by the room that there is. */
	said = before;
	said.entered = told.enter - said.returned + 1;
	expect_eq(of(said), RESIDENCY_CAME_MORE);
}

TEST(no_tenant_moves_more_than_it_has)
{
	struct residency_has little = {
		.here_bytes = 99, .out_bytes = 0, .given_bytes = 0, .chunk_bytes = CHUNK};
	struct residency_report said = before;

	said.left += 99;
	expect_eq(residency_doubt(&told, &before, &said, &little), RESIDENCY_BELIEVED);
	/* Bytes that have just left may come back. */
	said.entered += 99;
	expect_eq(residency_doubt(&told, &before, &said, &little), RESIDENCY_BELIEVED);
	said.entered++;
	expect_eq(residency_doubt(&told, &before, &said, &little), RESIDENCY_CAME_MORE);
	said = before;
	said.left += 100;
	expect_eq(residency_doubt(&told, &before, &said, &little), RESIDENCY_LEFT_MORE);
	said = before;
	said.dropped++;
	expect_eq(residency_doubt(&told, &before, &said, &little), RESIDENCY_GAVE_LESS);
	little.foreign = true;
	expect_eq(residency_doubt(&told, &before, &said, &little), RESIDENCY_BELIEVED);
}

static void draw(uint64_t *values, size_t count, uint64_t bound)
{
	for (size_t i = 0; i < count; i++)
		values[i] = test_random_below(bound);
}

/* Law: every believed report keeps the daemon's books above zero, and within its orders. */
TEST(a_believed_report_never_overdraws_the_books)
{
	uint32_t believed = 0;

	for (int i = 0; i < 100000; i++) {
		uint64_t o[3], h[4], w[5], s[6];

		draw(o, ARRAY_SIZE(o), 300);
		draw(h, ARRAY_SIZE(h), 100);
		draw(w, ARRAY_SIZE(w), 100);
		draw(s, ARRAY_SIZE(s), 100);
		const struct residency_order order = {o[0], o[1], o[2]};
		const struct residency_has owns = {.here_bytes = h[0],
						   .out_bytes = h[1],
						   .given_bytes = h[2],
						   .chunk_bytes = 1 + h[3]};
		const struct residency_report was = {
			.left = w[0], .entered = w[1], .returned = w[2], .dropped = w[3]};
		const struct residency_report said = {w[0] + s[0], s[1],	w[1] + s[2],
						      w[2] + s[3], w[3] + s[4], s[5]};

		if (residency_doubt(&order, &was, &said, &owns) != RESIDENCY_BELIEVED)
			continue;
		believed++;
		expect(said.left - was.left <= owns.here_bytes);
		expect(said.entered - was.entered <= owns.out_bytes + (said.left - was.left));
		expect(said.entered + said.returned <= order.enter);
		expect(!said.left || said.left < order.leave + owns.chunk_bytes);
		expect(said.copied <= said.left);
		expect(said.dropped - was.dropped <= owns.given_bytes);
	}
	expect(believed > 100);
}
