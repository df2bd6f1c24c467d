/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/settings.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/machine/mig.h"

static const struct settings_row rows[] = {
#define ROW(field, variable, kind, value, least, most, meaning, node)                              \
	{#field,	  variable, value,                                                         \
	 least,		  most,	    meaning,                                                       \
	 SETTINGS_##kind, node,	    offsetof(struct settings, field)},
#define NODE(...)  ROW(__VA_ARGS__, true)
#define LOCAL(...) ROW(__VA_ARGS__, false)
#include "sim/machine/settings.def"
#undef NODE
#undef LOCAL
#undef ROW
};

_Static_assert(ARRAY_SIZE(rows) <= 64, "struct settings has 64 bits for what was given");

struct model {
	const char *ident, *name;
	uint32_t sms, capability;
	uint64_t memory_mib;
	uint32_t clock_mhz, memory_clock_mhz, bus_bits;
	uint64_t device_rate, link_rate;
	uint32_t l2_kib, shared_per_sm_kib, shared_per_block_kib, cores_per_sm;
	uint64_t nvlink_rate;
	uint32_t nvlinks, pcie_generation, power_watt, pci_device;
};

static const struct model models[] = {
#define MODEL(ident, ...) {#ident, __VA_ARGS__},
#include "sim/machine/models.def"
#undef MODEL
};

struct unit {
	const char *suffix;
	uint64_t scale;
};

/* Of several spellings of a size, the first one is the full form. */
static const struct unit byte_units[] = {
	{"", 1},
	{"B", 1},
	{"KiB", 1ULL << 10},
	{"MiB", 1ULL << 20},
	{"GiB", 1ULL << 30},
	{"TiB", 1ULL << 40},
	{"K", 1ULL << 10},
	{"M", 1ULL << 20},
	{"G", 1ULL << 30},
	{"T", 1ULL << 40},
	{"KB", 1ULL << 10},
	{"MB", 1ULL << 20},
	{"GB", 1ULL << 30},
	{"TB", 1ULL << 40},
	{NULL, 0},
};

static const struct unit rate_units[] = {
	{"", 1},
	{"K", 1000},
	{"M", 1000000},
	{"G", 1000000000},
	{"T", 1000000000000},
	{"KB", 1000},
	{"MB", 1000000},
	{"GB", 1000000000},
	{"TB", 1000000000000},
	{"KiB", 1ULL << 10},
	{"MiB", 1ULL << 20},
	{"GiB", 1ULL << 30},
	{"TiB", 1ULL << 40},
	{NULL, 0},
};

static const struct unit time_units[] = {
	{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0},
};

static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};
static const struct unit factor_units[] = {{"", SETTINGS_FACTOR_ONE}, {NULL, 0}};

/* The name of a kind in a refusal. */
static const char *const kind_words[] = {
	[SETTINGS_BYTES] = "bytes such as 512MiB or 4GiB",
	[SETTINGS_RATE] = "bytes per second such as 55G",
	[SETTINGS_COUNT] = "a whole number",
	[SETTINGS_FACTOR] = "a decimal number such as 0.5",
	[SETTINGS_TIME] = "a time such as 25us or 2ms",
	[SETTINGS_VERSION] = "a version such as 12.9",
	[SETTINGS_SWITCH] = "on or off",
};

const struct settings_row *settings_row(size_t number)
{
	return number < ARRAY_SIZE(rows) ? &rows[number] : NULL;
}

const char *settings_model(size_t number)
{
	return number < ARRAY_SIZE(models) ? models[number].ident : NULL;
}

void settings_model_size(const char *ident, uint64_t *ret_mib, uint32_t *ret_sms)
{
	for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
		if (strcmp(models[i].ident, ident) != 0)
			continue;
		*ret_mib = models[i].memory_mib;
		*ret_sms = models[i].sms;
	}
}

/* Digits with an optional fraction and one of the units. */
static int parse_scaled(const char *text, const struct unit *units, bool whole, uint64_t *ret_value)
{
	unsigned __int128 value = 0;
	uint64_t divisor = 1;
	bool digits = false, point = false;

	for (;; text++) {
		if (*text == '.' && !point && !whole) {
			point = true;
			continue;
		}
		if (*text < '0' || *text > '9')
			break;
		digits = true;
		value = value * 10 + (unsigned)(*text - '0');
		if (point)
			divisor *= 10;
		if (value > UINT64_MAX || divisor > 1000000000)
			return -EINVAL;
	}
	if (!digits)
		return -EINVAL;
	for (; units->suffix; units++) {
		if (strcasecmp(text, units->suffix) != 0)
			continue;
		value = value * units->scale / divisor;
		if (value > UINT64_MAX)
			return -EINVAL;
		*ret_value = (uint64_t)value;
		return 0;
	}
	return -EINVAL;
}

/* 12.9 is 12090, as the driver counts; 7.0 is 7000. */
static int parse_version(const char *text, uint64_t *ret_value)
{
	char *end;
	unsigned long major, minor = 0;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	major = strtoul(text, &end, 10);
	if (*end == '.') {
		if (end[1] < '0' || end[1] > '9')
			return -EINVAL;
		minor = strtoul(end + 1, &end, 10);
	}
	if (*end || major > 1000 || minor > 99)
		return -EINVAL;
	*ret_value = major * 1000 + minor * 10;
	return 0;
}

int settings_parse_switch(const char *text, uint64_t *ret_value)
{
	static const char *const words[] = {"0", "off", "no", "1", "on", "yes"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(text, words[i]) != 0)
			continue;
		*ret_value = i >= 3;
		return 0;
	}
	return -EINVAL;
}

static int parse_kind(enum settings_kind kind, const char *text, uint64_t *ret_value)
{
	switch (kind) {
	case SETTINGS_BYTES:
		return parse_scaled(text, byte_units, false, ret_value);
	case SETTINGS_RATE:
		return parse_scaled(text, rate_units, false, ret_value);
	case SETTINGS_COUNT:
		return parse_scaled(text, plain_units, true, ret_value);
	case SETTINGS_FACTOR:
		return parse_scaled(text, factor_units, false, ret_value);
	case SETTINGS_TIME:
		return parse_scaled(text, time_units, false, ret_value);
	case SETTINGS_VERSION:
		return parse_version(text, ret_value);
	case SETTINGS_SWITCH:
		return settings_parse_switch(text, ret_value);
	}
	return -EINVAL;
}

int settings_parse_time(const char *text, uint64_t *ret_ns)
{
	return parse_scaled(text, time_units, false, ret_ns);
}

static uint64_t *row_value(struct settings *settings, const struct settings_row *row)
{
	return (uint64_t *)(void *)((char *)settings + row->offset);
}

uint64_t settings_value(const struct settings *settings, const struct settings_row *row)
{
	return *(const uint64_t *)(const void *)((const char *)settings + row->offset);
}

static int load_row(struct settings *settings, size_t number, struct fault *why)
{
	const struct settings_row *row = &rows[number];
	const char *text = getenv(row->variable);
	uint64_t value, least = 0, most = 0;

	if (text && *text)
		settings->given |= 1ULL << number;
	else
		text = row->value;
	/* The table's own bounds always parse: tests/unit/test_sim_settings.c reads each row. */
	best_effort(parse_kind(row->kind, row->least, &least));
	best_effort(parse_kind(row->kind, row->most, &most));
	if (parse_kind(row->kind, text, &value) < 0 || value < least || value > most)
		return fault_set(why, -EINVAL, "%s=%s: wants %s, from %s to %s", row->variable,
				 text, kind_words[row->kind], row->least, row->most);
	*row_value(settings, row) = value;
	return 0;
}

int settings_read(const char *field, uint64_t *ret_value, struct fault *why)
{
	struct settings settings;
	size_t i = 0;
	int r;

	while (i < ARRAY_SIZE(rows) && strcmp(rows[i].field, field) != 0)
		i++;
	if (i == ARRAY_SIZE(rows))
		return fault_set(why, -EINVAL, "there is no setting '%s'", field);
	settings.given = 0;
	r = load_row(&settings, i, why);
	if (r == 0)
		*ret_value = settings_value(&settings, &rows[i]);
	return r;
}

static uint64_t scaled(uint64_t rate, uint64_t factor)
{
	unsigned __int128 value = (unsigned __int128)rate * factor / SETTINGS_FACTOR_ONE;

	return value ? (uint64_t)value : 1;
}

static void shape(struct settings_device *device, const struct model *model,
		  const struct settings *settings)
{
	uint64_t peer = model->nvlink_rate ? model->nvlink_rate : model->link_rate;
	uint64_t capability = settings->capability ? settings->capability / 10 : 0;
	uint32_t most;

	memset(device, 0, sizeof(*device));
	snprintf(device->model, sizeof(device->model), "%s", model->ident);
	snprintf(device->name, sizeof(device->name), "%s", model->name);
	device->memory_bytes =
		settings->memory_bytes ? settings->memory_bytes : model->memory_mib << 20;
	device->sms = settings->sms ? (uint32_t)settings->sms : model->sms;
	device->capability_major =
		capability ? (uint32_t)(capability / 100) : model->capability / 10;
	device->capability_minor =
		capability ? (uint32_t)(capability % 100) : model->capability % 10;
	device->clock_mhz = model->clock_mhz;
	device->memory_clock_mhz = model->memory_clock_mhz;
	device->bus_bits = model->bus_bits;
	device->cores_per_sm = model->cores_per_sm;
	device->shared_per_sm_bytes = model->shared_per_sm_kib << 10;
	device->shared_per_block_bytes = model->shared_per_block_kib << 10;
	/* Corrects the shape of a model whose capability was overridden. */
	most = device->shared_per_sm_bytes -
	       (device->capability_major >= 8 ? SETTINGS_RESERVED_SHARED : 0);
	if (device->shared_per_block_bytes > most)
		device->shared_per_block_bytes = most;
	device->l2_bytes = (uint64_t)model->l2_kib << 10;
	device->device_rate = scaled(
		settings->device_rate ? settings->device_rate : model->device_rate, settings->rate);
	device->link_rate = scaled(settings->link_rate ? settings->link_rate : model->link_rate,
				   settings->rate);
	if (settings->link_rate && !model->nvlink_rate)
		peer = settings->link_rate;
	device->peer_rate =
		scaled(settings->peer_rate ? settings->peer_rate : peer, settings->rate);
	device->instruction_rate =
		scaled(settings->instruction_rate ? settings->instruction_rate
						  : (uint64_t)device->sms * model->cores_per_sm *
							    model->clock_mhz * 1000000,
		       settings->rate);
	device->nvlinks = model->nvlinks;
	device->pcie_generation = model->pcie_generation;
	device->power_watt = model->power_watt;
	device->pci_device = model->pci_device;
}

static int refuse_devices(const char *text, struct fault *why)
{
	char names[256] = "";

	for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
		strncat(names, i ? ", " : "", sizeof(names) - strlen(names) - 1);
		strncat(names, models[i].ident, sizeof(names) - strlen(names) - 1);
	}
	return fault_set(why, -EINVAL,
			 "METE_SIM_DEVICES=%s: wants COUNTxMODEL,... with at most %d devices; "
			 "models are %s",
			 text, SETTINGS_DEVICES_MAX, names);
}

static const struct model *model_named(const char *name, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(models); i++)
		if (strlen(models[i].ident) == length &&
		    strncasecmp(models[i].ident, name, length) == 0)
			return &models[i];
	return NULL;
}

/* "2xH200,T4" */
static int load_devices(struct settings *settings, struct fault *why)
{
	const char *text = getenv("METE_SIM_DEVICES"), *at;

	if (text && *text)
		settings->devices_given = 1;
	else
		text = "1xSIM";
	for (at = text;;) {
		size_t length = strcspn(at, ",");
		const char *next = at + length;
		const struct model *model;
		unsigned long count = 1;
		char *end;

		if (*at >= '0' && *at <= '9') {
			count = strtoul(at, &end, 10);
			if (end >= next || (*end != 'x' && *end != 'X'))
				return refuse_devices(text, why);
			length -= (size_t)(end + 1 - at);
			at = end + 1;
		}
		model = model_named(at, length);
		if (!model || count == 0 || count > SETTINGS_DEVICES_MAX - settings->device_count)
			return refuse_devices(text, why);
		while (count--)
			shape(&settings->devices[settings->device_count++], model, settings);
		if (!*next)
			return 0;
		at = next + 1;
	}
}

int settings_load(struct settings *ret_settings, struct fault *why)
{
	struct settings settings;
	int r;

	memset(&settings, 0, sizeof(settings));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		r = load_row(&settings, i, why);
		if (r < 0)
			return r;
	}
	r = load_devices(&settings, why);
	if (r == 0)
		r = mig_load(&settings, why);
	if (r < 0)
		return r;
	*ret_settings = settings;
	return 0;
}

int settings_folder(char ret_path[SETTINGS_PATH_MAX], struct fault *why)
{
	const char *text = getenv("METE_SIM_DIR");
	char path[SETTINGS_PATH_MAX];
	int n;

	if (!text || !*text) {
		n = snprintf(path, sizeof(path), "/dev/shm/mete-sim-%u", (unsigned)getuid());
	} else {
		if (*text != '/')
			return fault_set(why, -EINVAL, "METE_SIM_DIR=%s: wants an absolute path",
					 text);
		n = snprintf(path, sizeof(path), "%s", text);
	}
	if (n < 0 || (size_t)n >= sizeof(path))
		return fault_set(why, -EINVAL,
				 "METE_SIM_DIR: its path has %d bytes, at most %d are possible", n,
				 SETTINGS_PATH_MAX - 1);
	memcpy(ret_path, path, sizeof(path));
	return 0;
}

static bool same_devices(const struct settings *a, const struct settings *b)
{
	if (a->device_count != b->device_count)
		return false;
	for (uint32_t i = 0; i < a->device_count; i++)
		if (strcmp(a->devices[i].model, b->devices[i].model) != 0)
			return false;
	return true;
}

int settings_adopt(struct settings *mine, const struct settings *node, struct fault *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct settings_row *row = &rows[i];

		if (!row->node || !(mine->given >> i & 1))
			continue;
		if (settings_value(mine, row) != settings_value(node, row))
			return fault_set(why, -EEXIST,
					 "%s=%s: the processes that use this simulated node run "
					 "with another value; set METE_SIM_DIR for a node of "
					 "its own",
					 row->variable, getenv(row->variable));
	}
	if (mine->devices_given && !same_devices(mine, node))
		return fault_set(why, -EEXIST,
				 "METE_SIM_DEVICES=%s: the processes that use this simulated node "
				 "run with other devices; set METE_SIM_DIR for a node of its own",
				 getenv("METE_SIM_DEVICES"));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].node)
			*row_value(mine, &rows[i]) = settings_value(node, &rows[i]);
	mine->device_count = node->device_count;
	memcpy(mine->devices, node->devices, sizeof(mine->devices));
	return 0;
}
