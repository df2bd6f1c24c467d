/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/share_text.h"

#include <string.h>

const char *share_text_of(const struct share_text *texts, uint32_t field)
{
	while (texts && texts->field != field)
		texts = texts->next;
	return texts ? texts->text : NULL;
}

int share_text_add(struct share_text **texts, uint32_t field, const char *text)
{
	size_t size = strlen(text) + 1;
	struct share_text *made = malloc(sizeof(*made) + size);

	if (!made)
		return -ENOMEM;
	while (*texts && (*texts)->field < field)
		texts = &(*texts)->next;
	made->field = field;
	memcpy(made->text, text, size);
	made->next = *texts;
	*texts = made;
	return 0;
}

void share_texts_free(struct share_text *texts)
{
	while (texts) {
		struct share_text *next = texts->next;

		free(texts);
		texts = next;
	}
}
