/* SPDX-License-Identifier: Apache-2.0 */
#include "node/options.h"

#include <string.h>

#include "base/words.h"
#include "base/wrap.h"
#include "core/share/share.h"

enum { BLOCK_LEAST = 2 << 20, BLOCK_MOST = 64 << 20 };

#define INTERVAL_LEAST_NS 100000000ull
#define INTERVAL_MOST_NS  60000000000ull

static int set_flag(int *field, const char *name, const char *value, struct fault *why)
{
	if (value)
		return fault_set(why, -EINVAL, "--%s takes no value", name);
	*field = 1;
	return 0;
}

static int set_text(const char **field, const char *name, const char *value, struct fault *why)
{
	if (!value || !*value)
		return fault_set(why, -EINVAL, "--%s needs a value", name);
	*field = value;
	return 0;
}

static int set_amount(uint64_t *field, const char *name, const char *value, struct fault *why)
{
	struct share_amount amount;
	int r;

	if (!value)
		return fault_set(why, -EINVAL, "--%s needs a value", name);
	if (strcmp(value, "0") == 0) {
		*field = 0;
		return 0;
	}
	r = share_parse_amount(value, &amount);
	if (r == 0 && amount.milli)
		r = SHARE_UNIT;
	if (r != 0)
		return fault_set(why, -EINVAL,
				 "--%s: '%s' %s; accepted: 0 or an amount, as in "
				 "512M (K, M, G and T are powers of 1024)",
				 name, value, share_problem(r));
	*field = amount.bytes;
	return 0;
}

static int set_duration(uint64_t *field, const char *name, const char *value, struct fault *why)
{
	int r = value ? share_parse_duration(value, field) : SHARE_EMPTY;

	if (r != 0)
		return fault_set(why, -EINVAL,
				 "--%s: '%s' %s; accepted: a time with its unit, as "
				 "in 10s",
				 name, value ? value : "", share_problem(r));
	return 0;
}

static int set_interval(uint64_t *field, const char *name, const char *value, struct fault *why)
{
	uint64_t ns = 0;
	int r = set_duration(&ns, name, value, why);

	if (r < 0)
		return r;
	if (ns < INTERVAL_LEAST_NS || ns > INTERVAL_MOST_NS)
		return fault_set(why, -EINVAL, "--%s: '%s' is not accepted: 100ms to 60s", name,
				 value);
	*field = ns;
	return 0;
}

static int set_part(uint32_t *field, const char *name, const char *value, struct fault *why)
{
	struct share_amount amount = {0};
	int r = value ? share_parse_amount(value, &amount) : SHARE_EMPTY;

	if (r != 0 || !amount.milli || amount.milli > 500)
		return fault_set(why, -EINVAL,
				 "--%s: '%s' is not accepted: a percentage above 0%% and up to "
				 "50%%, or a fraction (100/1000)",
				 name, value ? value : "");
	*field = amount.milli;
	return 0;
}

static int set_block(uint64_t *field, const char *name, const char *value, struct fault *why)
{
	uint64_t bytes = 0;
	int r = set_amount(&bytes, name, value, why);

	if (r < 0)
		return r;
	if (bytes < BLOCK_LEAST || bytes > BLOCK_MOST || bytes % BLOCK_LEAST)
		return fault_set(why, -EINVAL,
				 "--%s: '%s' is not accepted: 2MiB to 64MiB, in whole 2MiB", name,
				 value);
	*field = bytes;
	return 0;
}

static int set_level(enum log_level *field, const char *name, const char *value, struct fault *why)
{
	if (!value || log_parse_level(value, field) < 0)
		return fault_set(why, -EINVAL, "--%s: '%s' is not error, warning, info or debug",
				 name, value ? value : "");
	return 0;
}

struct row {
	const char *name, *argument, *help;
};

static const struct row rows[] = {
#define OPTION(name, argument, field, kind, help) {#name, argument, help},
#include "node/options.def"
#undef OPTION
};

static int set_one(struct options *options, size_t index, const char *value, struct fault *why)
{
	size_t i = 0;

#define OPTION(name, argument, field, kind, help)                                                  \
	if (i++ == index)                                                                          \
		return set_##kind(&options->field, #name, value, why);
#include "node/options.def"
#undef OPTION
	return fault_set(why, -EINVAL, "no such option");
}

static int find(const char *name, size_t length, size_t *ret_index)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0) {
			*ret_index = i;
			return 0;
		}
	}
	return -ENOENT;
}

static int refuse(const char *word, struct fault *why)
{
	const char *names[ARRAY_SIZE(rows)], *nearest = NULL;
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		names[i] = rows[i].name;
	if (strncmp(word, "--", 2) == 0) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
		nearest = words_nearest(name, names, ARRAY_SIZE(names));
	}
	return fault_set(why, -EINVAL, "'%s' is not an option%s%s%s: see meted --help", word,
			 nearest ? " (did you mean '--" : "", nearest ? nearest : "",
			 nearest ? "'?)" : "");
}

static int read_all(int argc, char **argv, struct options *options, struct fault *why)
{
	int r;

	for (int i = 1; i < argc; i++) {
		const char *name = argv[i] + 2, *value = NULL, *equals;
		size_t index;

		if (strncmp(argv[i], "--", 2) != 0 || !*name)
			return refuse(argv[i], why);
		equals = strchr(name, '=');
		if (find(name, equals ? (size_t)(equals - name) : strlen(name), &index) < 0)
			return refuse(argv[i], why);
		if (equals)
			value = equals + 1;
		else if (*rows[index].argument && i + 1 < argc)
			value = argv[++i];
		r = set_one(options, index, value, why);
		if (r < 0)
			return r;
	}
	return 0;
}

enum { PAGE_LEAST_S = 5, PAGE_MOST_S = 3600 };

static int check_page(const struct options *options, struct fault *why)
{
	uint64_t s = options->page_kubernetes_ns / 1000000000;

	if (options->page_audience && !s)
		return fault_set(why, -EINVAL, "--page-audience needs --page-kubernetes TIME");
	if (!options->page_kubernetes_ns)
		return 0;
	if (!options->kubernetes)
		return fault_set(why, -EINVAL,
				 "--page-kubernetes needs a node of Kubernetes: --kubernetes FILE");
	if (s < PAGE_LEAST_S || s > PAGE_MOST_S)
		return fault_set(why, -EINVAL, "--page-kubernetes: accepted: %ds to 60m, as in 30s",
				 PAGE_LEAST_S);
	return 0;
}

/* Do they go together? */
static int check(const struct options *options, struct fault *why)
{
	if (options->user && options->system)
		return fault_set(why, -EINVAL, "--user and --system are mutually exclusive");
	if (options->dir && options->dir[0] != '/')
		return fault_set(why, -EINVAL, "--dir: '%s' is not an absolute path", options->dir);
	if (options->user && options->policy)
		return fault_set(why, -EINVAL,
				 "--policy is for the machine's daemon, not a user's");
	if (options->user && options->kubernetes)
		return fault_set(why, -EINVAL,
				 "--kubernetes needs the machine's daemon, not a user's");
	if (options->mig_config && !options->kubernetes)
		return fault_set(why, -EINVAL,
				 "--mig-config needs --kubernetes FILE: on another machine "
				 "`mete mig apply` divides GPUs");
	if (options->no_native_limits && !options->kubernetes)
		return fault_set(why, -EINVAL,
				 "--no-native-limits needs --kubernetes FILE: elsewhere the driver "
				 "limits nothing by itself");
	if (options->kubernetes && options->metrics)
		return fault_set(why, -EINVAL,
				 "--metrics is for a machine without Kubernetes; on a node the "
				 "file of --kubernetes has the key 'metrics'");
	return check_page(options, why);
}

int options_parse(int argc, char **argv, struct options *ret_options, struct fault *why)
{
	struct options options = {.log_level = LOG_INFO,
				  .context_bytes = 64 << 20,
				  .grace_ns = 10 * 1000000000ull,
				  .store_bytes = OPTIONS_UNSAID,
				  .quota_bytes = OPTIONS_UNSAID,
				  .movement_milli = 50,
				  .park_after_ns = 10 * 1000000000ull,
				  .park_delay_ns = 100 * 1000000ull,
				  .look_ns = 5 * 1000000000ull,
				  .block_bytes = BLOCK_MOST};
	int r = read_all(argc, argv, &options, why);

	if (r == 0)
		r = check(&options, why);
	if (r < 0)
		return r;
	if (!options.user && !options.system)
		options.system = geteuid() == 0;
	*ret_options = options;
	return 0;
}

void options_help(FILE *out)
{
	fputs("usage: meted [OPTION]...\n\n"
	      "Owns the GPUs of this machine and decides who may use how much of them.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", rows[i].name, *rows[i].argument ? " " : "",
			 rows[i].argument);
		fprintf(out, "  %-22s ", left);
		wrap_print(out, rows[i].help, 25, 25);
	}
}
