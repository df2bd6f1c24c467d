/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/refused.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

void refused_set(const struct plugin *p, const char *what, const char *sentence)
{
	char path[PLUGIN_PATH + 32];
	int r;

	snprintf(path, sizeof(path), "%s/refused", p->host->place);
	if (sentence)
		mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/refused/%s", p->host->place, what);
	if (!sentence) {
		unlink(path);
		return;
	}
	r = file_replace_unsynced(path, sentence, strlen(sentence), 0600);
	if (r < 0)
		log_debug("refused.unwritten", "path=%s reason=%s", path, strerror(-r));
}

void refused_clear(const struct plugin *p)
{
	refused_set(p, REFUSED_CONFIG, NULL);
	refused_set(p, REFUSED_MIG, NULL);
}
