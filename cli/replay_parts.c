/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay_parts.h"

#include <string.h>
#include <sys/stat.h>

/* Makes room for `count` more. */
static int reserve(struct replay_tenants *all, uint32_t count, struct fault *why)
{
	void *loads;

	if (count > all->most - all->size)
		return fault_set(why, -EINVAL, "more than %u tenants", all->most);
	loads = realloc(all->loads, (all->size + count) * all->load_bytes);
	if (!loads)
		return fault_set(why, -ENOMEM, "out of memory");
	all->loads = loads;
	return 0;
}

static char *load_at(const struct replay_tenants *all, uint32_t i)
{
	return (char *)all->loads + i * all->load_bytes;
}

int replay_tenants_add(struct replay_tenants *all, const char *text, struct fault *why)
{
	uint32_t count, first = all->size;
	char name[24];
	int r = reserve(all, 1, why);

	if (r == 0)
		r = all->parse(text, load_at(all, first), &count, why);
	if (r == 0)
		r = reserve(all, count, why);
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%.20s", load_at(all, first) + all->name_at);
	for (; all->size < first + count; all->size++) {
		char *at = load_at(all, all->size);

		if (all->size > first)
			memcpy(at, load_at(all, first), all->load_bytes);
		if (!name[0] || count > 1)
			snprintf(at + all->name_at, all->name_bytes, "%s%u", name[0] ? name : "t",
				 all->size + 1);
	}
	return 0;
}

int replay_tenants_read(struct replay_tenants *all, const struct cli_call *call, struct fault *why)
{
	for (int i = 0; i < call->argc; i++) {
		int r = replay_tenants_add(all, call->argv[i], why);

		if (r < 0)
			return r;
	}
	if (!all->size && !cli_value(call, "pods"))
		return fault_set(why, -EINVAL, "name the tenants that share the device, as in %s",
				 all->example);
	return 0;
}

static int open_one(const char *folder, const char *name, const char *ending, FILE **ret,
		    struct fault *why)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.%s", folder, name, ending);
	*ret = fopen(path, "we");
	return *ret ? 0 : fault_set(why, -errno, "%s: %s", path, strerror(errno));
}

int replay_output_open(const char *folder, const char *name, struct replay_output *ret_output,
		       struct fault *why)
{
	int r;

	*ret_output = (struct replay_output){.name = name};
	if (mkdir(folder, 0777) < 0 && errno != EEXIST)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	r = open_one(folder, name, "json", &ret_output->json, why);
	return r == 0 ? open_one(folder, name, "svg", &ret_output->svg, why) : r;
}

static int check_one(FILE *file, const char *name, const char *ending, struct fault *why)
{
	return fflush(file) != 0 || ferror(file)
		       ? fault_set(why, -EIO, "%s.%s: %s", name, ending, strerror(errno))
		       : 0;
}

int replay_output_check(const struct replay_output *output, struct fault *why)
{
	int r = check_one(output->json, output->name, "json", why);

	return r == 0 ? check_one(output->svg, output->name, "svg", why) : r;
}

void replay_output_close(struct replay_output *output)
{
	if (output->json)
		fclose(output->json);
	if (output->svg)
		fclose(output->svg);
	*output = (struct replay_output){0};
}
