/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of the configuration: a file, or, of a folder of them, the one that the node's label
 * names (plugin/config/choice.h). For active_config.c alone.
 */
#pragma once

#include "plugin/plugin.h"

/* Also sets p->config_file. *ret_unchosen: the reason why a folder has no configuration for a
 * node whose labels are not known yet; the text is then that of an empty configuration. "": it
 * has one. */
must_check int active_file_read(struct plugin *p, const struct config_place *place, char **ret_text,
				size_t *ret_size, struct fault *ret_unchosen, struct fault *why);
/* Is it another text than p->config_text, or is there another reason that there is none? */
bool active_file_differs(struct plugin *p);
