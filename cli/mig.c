/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete mig: what mig-parted does with its configuration file. It asks the driver, and meted only
 * for the tenants of a GPU that would change. A running meted notices the change by itself.
 */
#include "mig/apply.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/place.h"
#include "cli/cli.h"
#include "cli/ps_fetch.h"
#include "cli/sim_node.h"
#include "mig/export.h"

/* A switch that mig-parted's environment may also give. */
static bool is_on(const struct cli_call *call, const char *option, const char *variable)
{
	const char *text = getenv(variable);

	return cli_value(call, option) ||
	       (text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0));
}

static const char *value_of(const struct cli_call *call, const char *option, const char *variable)
{
	const char *text = cli_value(call, option);

	return text ? text : getenv(variable);
}

static int read_spec(const struct cli_call *call, struct mig_spec *ret_spec, struct fault *why)
{
	const char *path = value_of(call, "config_file", "MIG_PARTED_CONFIG_FILE");
	owned(free) char *text = NULL;
	owned(close) int file = -1;
	size_t size = 0;
	int fd = STDIN_FILENO, r;

	if (!path || !*path)
		return fault_set(why, -EINVAL,
				 "no configuration file: --config-file FILE is needed (- is "
				 "standard input)");
	if (strcmp(path, "-") != 0) {
		/* It may be a link, as are all files of a ConfigMap. */
		file = open(path, O_RDONLY | O_CLOEXEC);
		fd = file;
	}
	r = fd < 0 ? -errno : file_slurp_from(fd, MIG_SPEC_BYTES_MAX, &text, &size);
	if (r < 0)
		return fault_set(why, r, "%s: %s", path, strerror(-r));
	return mig_spec_parse(path, text, size,
			      value_of(call, "selected_config", "MIG_PARTED_SELECTED_CONFIG"),
			      ret_spec, why);
}

/* ---- who has what, by meted ----------------------------------------------------------------- */

struct tenants {
	struct ps_rows rows;
	char who[200];
};

static const char *who(void *owner, const char *uuid)
{
	struct tenants *tenants = owner;

	for (size_t i = 0; i < tenants->rows.count; i++) {
		const struct wire_tenant_row *t = &tenants->rows.row[i].tenant_row;

		if (tenants->rows.row[i].code != WIRE_tenant_row ||
		    strcmp(ps_uuid(ps_device(&tenants->rows, t->device)).text, uuid) != 0)
			continue;
		snprintf(tenants->who, sizeof(tenants->who), "tenant %u (%.120s)", t->tenant,
			 t->name.text);
		return tenants->who;
	}
	return NULL;
}

/* Without a meted only the driver tells which processes use a GPU. A meted that does not answer may
 * have tenants. */
static int find_tenants(struct tenants *tenants, struct fault *why)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	char place[PLACE_MAX];
	int r = admin_connect_any(&admin, place, why);

	if (r == ADMIN_ABSENT)
		return 0;
	if (r == 0)
		r = sim_node_same(admin.daemon.pid, why);
	if (r == -EXDEV) /* it has other GPUs */
		return 0;
	return r < 0 ? r : ps_fetch_rows(&admin, 0, &tenants->rows, why);
}

/* ---- the three ------------------------------------------------------------------------------ */

static int apply(const struct cli_call *call, const struct mig_nvml *nvml,
		 const struct mig_spec *spec, bool mode_only)
{
	struct tenants tenants = {0};
	const struct mig_tenants asked = {&tenants, who};
	struct fault why;
	const char *hooks = getenv("MIG_PARTED_HOOKS_FILE");
	int r = find_tenants(&tenants, &why);

	if (hooks && *hooks)
		fputs("mete mig: note: MIG_PARTED_HOOKS_FILE is ignored: mete runs no hooks\n",
		      stderr);
	if (r == 0)
		r = mig_apply(nvml, spec, mode_only, &asked, &why);
	ps_rows_free(&tenants.rows);
	if (r < 0)
		return cli_fail(call, 1, &why);
	printf("%s is applied%s\n", spec->name, mode_only ? ", as far as it says modes" : "");
	return 0;
}

static int assert_that(const struct cli_call *call, const struct mig_nvml *nvml,
		       const struct mig_spec *spec, bool mode_only)
{
	struct fault why;

	if (mig_assert(nvml, spec, mode_only, &why) != 0)
		return cli_fail(call, 1, &why);
	printf("%s is applied now%s\n", spec->name, mode_only ? ", as far as it says modes" : "");
	return 0;
}

static int export_all(const struct cli_call *call, const char *folder)
{
	const char *format = value_of(call, "output_format", "MIG_PARTED_OUTPUT_FORMAT");
	const char *label = value_of(call, "config_label", "MIG_PARTED_CONFIG_LABEL");
	owned(mig_close) struct mig_nvml *nvml = NULL;
	struct fault why;
	bool json = format && strcmp(format, "json") == 0;

	if (format && !json && strcmp(format, "yaml") != 0)
		return cli_complain(call, CLI_USAGE, "--output-format '%s': accepted: yaml, json",
				    format);
	/* The text is written into both as it is. */
	if (label &&
	    (!*label || strspn(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.") != strlen(label)))
		return cli_complain(call, CLI_USAGE,
				    "--config-label '%s': accepted: letters, digits, - _ and .",
				    label);
	if (mig_open(folder, &nvml, &why) < 0 ||
	    mig_export(nvml, stdout, label ? label : "current", json, &why) < 0)
		return cli_fail(call, 1, &why);
	return 0;
}

/* Options that belong to another of the three. */
static int check_options(const struct cli_call *call, const char *act, struct fault *why)
{
	static const struct {
		const char *option, *acts;
	} rows[] = {
		{"config_file", "apply assert"}, {"selected_config", "apply assert"},
		{"mode_only", "apply assert"},	 {"skip_reset", "apply"},
		{"valid_config", "assert"},	 {"output_format", "export"},
		{"config_label", "export"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (cli_value(call, rows[i].option) && !strstr(rows[i].acts, act))
			return fault_set(why, -EINVAL, "--%s is not an option of `mete mig %s`",
					 cli_dashed(rows[i].option).text, act);
	return 0;
}

int mig_main(const struct cli_call *call)
{
	const char *act = call->argc == 1 ? call->argv[0] : "", *folder = getenv("METE_DRIVER");
	owned(mig_spec_done) struct mig_spec spec = {0};
	owned(mig_close) struct mig_nvml *nvml = NULL;
	bool mode_only = is_on(call, "mode_only", "MIG_PARTED_MODE_CHANGE_ONLY");
	struct fault why;
	int r;

	if (strcmp(act, "apply") != 0 && strcmp(act, "assert") != 0 && strcmp(act, "export") != 0)
		return cli_complain(
			call, CLI_USAGE,
			"expected one of apply, assert and export, as in: mete mig export");
	if (check_options(call, act, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (strcmp(act, "export") == 0)
		return export_all(call, folder);
	r = read_spec(call, &spec, &why);
	if (r < 0)
		return cli_fail(
			call,
			r == -EINVAL && !value_of(call, "config_file", "MIG_PARTED_CONFIG_FILE")
				? CLI_USAGE
				: 1,
			&why);
	if (strcmp(act, "assert") == 0 && is_on(call, "valid_config", "MIG_PARTED_VALID_CONFIG")) {
		printf("%s can be applied, as far as the file goes\n", spec.name);
		return 0;
	}
	if (mig_open(folder, &nvml, &why) < 0)
		return cli_fail(call, 1, &why);
	return (strcmp(act, "apply") == 0 ? apply : assert_that)(call, nvml, &spec, mode_only);
}
