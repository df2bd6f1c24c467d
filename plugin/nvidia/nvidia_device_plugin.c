/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meted under the name of NVIDIA's device plugin and with its command line: for a DaemonSet of that
 * plugin whose image was replaced.
 *
 *	nvidia-device-plugin [OPTION]... [-- OPTION OF METED...]
 *	nvidia-device-plugin --help | --version
 *
 * $CONFIG_FILE is the file, or a folder of named ones; without it that plugin's defaults apply.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parts.h"
#include "plugin/config/config_flags.h"

enum { WORDS_MAX = 64 };

static int start(int argc, char **argv, struct fault *why)
{
	static const char *const programs[] = {"../node/meted", "../bin/meted", NULL};
	static const char *const files[] = {"../plugin/nvidia.yaml", "../lib/mete/nvidia.yaml",
					    NULL};
	const struct config_flags flags = {setenv, getenv};
	char meted[PATH_MAX], file[PATH_MAX];
	const char *given;
	char *words[WORDS_MAX] = {meted, (char *)"--system", (char *)"--kubernetes", file};
	int rest, n = 4, r = config_take_flags(&flags, argv + 1, argc - 1, &rest, why);

	if (r == 0)
		r = parts_find(programs, meted, why);
	given = getenv("CONFIG_FILE");
	if (r == 0 && (!given || !*given))
		r = parts_find(files, file, why);
	else if (r == 0)
		snprintf(file, sizeof(file), "%s", given);
	if (r < 0)
		return r;
	/* It was read. */
	unsetenv("CONFIG_FILE");
	for (; rest < argc - 1; rest++) {
		if (n == WORDS_MAX - 1)
			return fault_set(why, -E2BIG, "too many options after --");
		words[n++] = argv[1 + rest];
	}
	execv(meted, words);
	return fault_set(why, -errno, "%s: %s", meted, strerror(errno));
}

static void show(void *owner, const char *option, const char *variable, bool turned)
{
	char left[48];

	(void)owner;
	snprintf(left, sizeof(left), "--%s%s", option, turned ? "" : " VALUE");
	printf("  %-44s $%s\n", left, variable);
}

static void help(void)
{
	puts("usage: nvidia-device-plugin [OPTION]... [-- OPTION OF METED...]\n\n"
	     "Starts meted with the command line of NVIDIA's device plugin. Each option goes "
	     "before\n"
	     "the variable that it stands for.\n");
	config_each_flag(show, NULL);
	printf("  %-44s this text\n  %-44s the version\n", "--help, -h", "--version, -v");
}

static bool is_any(const char *word, const char *one, const char *other)
{
	return strcmp(word, one) == 0 || strcmp(word, other) == 0;
}

/* As there, wherever it stands among the options. */
static bool answer(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (is_any(argv[i], "--help", "-h")) {
			help();
			return true;
		}
		if (is_any(argv[i], "--version", "-v")) {
			puts("nvidia-device-plugin of mete " METE_VERSION);
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	struct fault why;

	if (answer(argc, argv))
		return fflush(stdout) == 0 ? 0 : 1;
	best_effort(start(argc, argv, &why));
	fprintf(stderr, "nvidia-device-plugin: %s\n", why.text);
	return 1;
}
