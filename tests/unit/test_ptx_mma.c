/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every row that multiplies matrices, against a product in integers. Where each lane's numbers lie
 * is written here as the ISA says it, element by element, not as sim/ptx/exec_mma.c finds it.
 */
#include "sim/ptx/form.h"
#include "tests/unit/test_ptx_harness.h"
#include "tests/unit/test_ptx_spell.h"

enum { ROWS = 16, COLUMNS = 8, DEEP = 32, SLOTS = 32 };

struct shape {
	unsigned m, k;
	char type[2][8], sum[8]; /* "f16" */
	bool saturate;
	unsigned per, n[4]; /* numbers in a register; registers of D, A, B, C */
	bool wide;	    /* registers of 64 bits */
};

struct place {
	unsigned row, column;
};

static struct shape shape_of(const char *name)
{
	struct shape s = {0};
	const char *rest;

	expect_eq(sscanf(name, "mma.sync.aligned.m%un8k%u", &s.m, &s.k), 2);
	rest = strstr(name, ".row.col");
	expect(rest != NULL);
	rest += strlen(".row.col");
	s.saturate = !strncmp(rest, ".satfinite", 10);
	rest += s.saturate ? 10 : 0;
	expect_eq(sscanf(rest, ".%7[a-z0-9].%7[a-z0-9].%7[a-z0-9]", s.sum, s.type[0], s.type[1]),
		  3);
	s.wide = !strcmp(s.sum, "f64");
	s.per = strchr(s.type[0], '8') ? 4 : strstr(s.type[0], "f16") ? 2 : 1;
	s.n[1] = s.m * s.k / 32 / s.per;
	s.n[2] = 8 * s.k / 32 / s.per;
	s.n[0] = s.n[3] = s.m * 8 / 32 / (!strcmp(s.sum, "f16") ? 2 : 1);
	return s;
}

/* Number i of A in a lane. */
static struct place place_a(const struct shape *s, unsigned lane, unsigned i)
{
	unsigned group = lane / 4, in = lane % 4;

	switch (s->per) {
	case 1: /* tf32, f64 */
		return (struct place){group + (s->m == 16 && i % 2 ? 8 : 0),
				      in + (s->m == 16 ? i / 2 * 4 : 0)};
	case 2:
		return (struct place){group + ((i >= 2 && i < 4) || i >= 6 ? 8 : 0),
				      in * 2 + i % 2 + (i >= 4 ? 8 : 0)};
	default:
		return (struct place){group + ((i >= 4 && i < 8) || i >= 12 ? 8 : 0),
				      in * 4 + i % 4 + (i >= 8 ? 16 : 0)};
	}
}

static struct place place_b(const struct shape *s, unsigned lane, unsigned i)
{
	unsigned group = lane / 4, in = lane % 4;

	return (struct place){in * s->per + i % s->per + i / s->per * s->per * 4, group};
}

static struct place place_sum(unsigned lane, unsigned i)
{
	return (struct place){lane / 4 + (i >= 2 ? 8 : 0), lane % 4 * 2 + i % 2};
}

static uint64_t encode(const char *type, int value)
{
	float f = (float)value;
	double d = value;
	uint64_t bits64;
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if (!strcmp(type, "f16"))
		return value ? (bits >> 16 & 0x8000) | (((bits & 0x7fffffff) >> 13) - 0x1c000) : 0;
	if (!strcmp(type, "bf16"))
		return bits >> 16;
	if (!strcmp(type, "tf32"))
		return bits | 0x155; /* bits that must not count */
	if (!strcmp(type, "f32"))
		return bits;
	if (!strcmp(type, "f64")) {
		memcpy(&bits64, &d, sizeof(bits64));
		return bits64;
	}
	return (uint32_t)value;
}

static void put(uint8_t *slots, unsigned i, unsigned width, uint64_t value)
{
	memcpy(slots + (size_t)i * width, &value,
	       width); /* the tests run on little-endian machines */
}

static unsigned width_of(const char *type)
{
	return strchr(type, '8') ? 1 : strstr(type, "f16") ? 2 : !strcmp(type, "f64") ? 8 : 4;
}

static void kernel(const struct shape *s, const char *name, char *text, size_t size)
{
	static const char letters[] = "dabc";
	char vectors[4][160];
	const char *type = s->wide ? "f64" : "b32";
	int n = snprintf(text, size, "%s", HARNESS_HEAD HARNESS_KERNEL("k"));

	n += snprintf(text + n, size - (size_t)n, "mad.wide.u32 %%at, %%t, %u, %%in;\n", SLOTS * 8);
	for (unsigned v = 0; v < 4; v++) {
		n += snprintf(text + n, size - (size_t)n, ".reg .%s %%%c<%u>;\n", type, letters[v],
			      s->n[v]);
		vectors[v][0] = 0;
		for (unsigned i = 0, at = 0; i < s->n[v]; i++)
			at += (unsigned)snprintf(vectors[v] + at, sizeof(vectors[v]) - at,
						 "%s%%%c%u", i ? ", " : "", letters[v], i);
	}
	/* A in slots 0 to 7, B in 8 to 15, C in 16 to 23, D from 24 on */
	for (unsigned v = 1; v < 4; v++)
		for (unsigned i = 0; i < s->n[v]; i++)
			n += snprintf(text + n, size - (size_t)n,
				      "ld.global.%s %%%c%u, [%%at+%u];\n", type, letters[v], i,
				      (v - 1) * 64 + i * (s->wide ? 8 : 4));
	n += snprintf(text + n, size - (size_t)n, "%s {%s}, {%s}, {%s}, {%s};\n", name, vectors[0],
		      vectors[1], vectors[2], vectors[3]);
	for (unsigned i = 0; i < s->n[0]; i++)
		n += snprintf(text + n, size - (size_t)n, "st.global.%s [%%at+%u], %%d%u;\n", type,
			      192 + i * (s->wide ? 8 : 4), i);
	n += snprintf(text + n, size - (size_t)n, "ret;\n}\n");
	expect((size_t)n < size);
}

/* A number that the type holds exactly, with its products and their sums. */
static int small(const char *type, unsigned *noise)
{
	*noise = *noise * 1103515245 + 12345;
	return type[0] == 'u'	? (int)(*noise >> 16 & 0xff)
	       : type[0] == 's' ? (int)(int8_t)(*noise >> 16)
				: (int)(*noise >> 16 & 15) - 8;
}

static int64_t wanted(const struct shape *s, int64_t exact)
{
	if (strcmp(s->sum, "s32") != 0)
		return exact;
	if (s->saturate)
		return exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact;
	return (int32_t)(uint32_t)exact;
}

static void try_mma(const char *name)
{
	static char text[8192];
	static int a[ROWS][DEEP], b[DEEP][COLUMNS], c[ROWS][COLUMNS];
	struct shape s = shape_of(name);
	unsigned noise = 7, sums = s.m * 8 / 32;
	uint8_t *lanes = harness_data();

	for (unsigned i = 0; i < ROWS * DEEP; i++)
		a[i / DEEP][i % DEEP] = small(s.type[0], &noise);
	for (unsigned i = 0; i < DEEP * COLUMNS; i++)
		b[i / COLUMNS][i % COLUMNS] = small(s.type[1], &noise);
	for (unsigned i = 0; i < ROWS * COLUMNS; i++)
		c[i / COLUMNS][i % COLUMNS] = strcmp(s.sum, "s32") ? (int)(i % 100)
					      : i % 3 == 0	   ? INT32_MAX - (int)i
					      : i % 3 == 1	   ? INT32_MIN + (int)i
								   : (int)i;
	kernel(&s, name, text, sizeof(text));
	harness_load(text);
	lanes = harness_data();
	memset(lanes, 0xa5, LANES * SLOTS * 8);
	for (unsigned l = 0; l < LANES; l++) {
		uint8_t *slots = lanes + (size_t)l * SLOTS * 8;

		for (unsigned i = 0; i < s.n[1] * s.per; i++) {
			struct place p = place_a(&s, l, i);

			put(slots, i, width_of(s.type[0]), encode(s.type[0], a[p.row][p.column]));
		}
		for (unsigned i = 0; i < s.n[2] * s.per; i++) {
			struct place p = place_b(&s, l, i);

			put(slots + 64, i, width_of(s.type[1]),
			    encode(s.type[1], b[p.row][p.column]));
		}
		for (unsigned i = 0; i < sums; i++) {
			struct place p = place_sum(l, i);

			put(slots + 128, i, width_of(s.sum), encode(s.sum, c[p.row][p.column]));
		}
	}
	harness_run("k", 1, LANES);
	for (unsigned l = 0; l < LANES; l++) {
		for (unsigned i = 0; i < sums; i++) {
			struct place p = place_sum(l, i);
			int64_t exact = c[p.row][p.column];
			unsigned width = width_of(s.sum);
			uint64_t got = 0;

			for (unsigned k = 0; k < s.k; k++)
				exact += (int64_t)a[p.row][k] * b[k][p.column];
			memcpy(&got, lanes + (size_t)l * SLOTS * 8 + 192 + (size_t)i * width,
			       width);
			if (got != masked(encode(s.sum, (int)wanted(&s, exact)), width * 8))
				test_fail(__FILE__, __LINE__,
					  "%s: lane %u, sum %u is %llx, wanted %lld", name, l, i,
					  (unsigned long long)got, (long long)wanted(&s, exact));
		}
	}
}

TEST(every_shape_of_matrices_is_multiplied_as_the_isa_lays_it_out)
{
	static struct spellings s;
	unsigned tried = 0;

	for (size_t i = 0; i < form_rows_count; i++) {
		if (strcmp(form_rows[i].operands, "mma") != 0)
			continue;
		spell_all(form_rows[i].pattern, &s);
		for (unsigned n = 0; n < s.n; n++, tried++)
			try_mma(s.names[n]);
	}
	expect(tried > 30);
}

TEST(too_few_registers_of_a_matrix_are_refused)
{
	expect(harness_try(HARNESS_HEAD HARNESS_KERNEL(
		       "k") ".reg .f32 %d<4>;\n.reg .b32 %a<4>;\n"
			    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%d0, %d1, %d2, "
			    "%d3}, "
			    "{%a0, %a1}, {%a2, %a3}, {%d0, %d1, %d2, %d3};\nret;\n}\n") != 0);
	expect(strstr(harness.error.text, "needs four vectors") != NULL);
}
