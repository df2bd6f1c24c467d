/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of the API server about a node's software (two text lines), and any content of
 * containerd's file (the rest): one answer, with its reason. */
#include <stdlib.h>
#include <string.h>

#include "plugin/inject/cdi_choice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

/* The next text line, ended in place; NULL: there is none, or it is empty. */
static const char *next_text_line(char **at)
{
	const char *line = strsep(at, "\n");

	return line && *line ? line : NULL;
}

static bool choose(const struct cdi_facts *facts, struct fault *reason)
{
	bool used;

	memset(reason, 'x', sizeof(*reason));
	used = cdi_choice(facts, reason);
	must(memchr(reason->text, '\0', sizeof(reason->text)) && *reason->text);
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *text = malloc(size + 1);
	char *at = text;
	struct fault reason, other;
	struct cdi_facts facts = {.folder = true};
	bool used;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	facts.kubelet = next_text_line(&at);
	facts.runtime = next_text_line(&at);
	facts.config = at;
	used = choose(&facts, &reason);
	/* containerd's file is about containerd alone. */
	if (facts.runtime && strncmp(facts.runtime, "containerd://", 13) != 0) {
		facts.config = NULL;
		must(choose(&facts, &other) == used && strcmp(reason.text, other.text) == 0);
	}
	/* A kubelet that passes nothing on decides, whatever the runtime can. */
	facts.kubelet = "v1.28.0";
	must(!choose(&facts, &other));
	/* Whether the folder is there is said only where nothing else is known. */
	facts.kubelet = NULL;
	used = choose(&facts, &reason);
	facts.folder = false;
	must(choose(&facts, &other) == used);
	return 0;
}
