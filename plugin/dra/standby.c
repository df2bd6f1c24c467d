/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/standby.h"

#include "plugin/dra/inside.h"
#include "plugin/dra/register.h"

static void on_told(void *owner)
{
	const struct plugin *p = owner;

	p->host->succeeded(p->host->daemon);
}

int standby_succeed(struct plugin *p)
{
	char driver[80];
	struct fault why;
	int r;

	if (!p->host->stands_by || p->awaited || !p->config->has_mete || !p->config->dra)
		return 0;
	r = registration_name(p->config, driver, &why);
	if (r == 0)
		r = registration_await(p, driver, on_told, p, &p->awaited, &why);
	if (r < 0)
		log_warning("standby.unregistered", "reason=%s", log_text(why.text).text);
	return r == 0;
}

void standby_close(struct plugin *p)
{
	struct registration *reg = take(p->awaited);

	if (!reg)
		return;
	reg->told = NULL;
	if (p->host->carried)
		*p->host->carried = reg;
	else
		registration_free(reg);
}
