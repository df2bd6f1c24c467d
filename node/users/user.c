/* SPDX-License-Identifier: Apache-2.0 */
#include "node/users/user.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "node/daemon.h"
#include "node/memory/book.h"
#include "node/memory/remains.h"
#include "node/peers/flow.h"
#include "node/users/policy.h"
#include "node/users/terms.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 /* Linux 4.13 */
#endif

/* ---- the policy ------------------------------------------------------------------------------ */

const char *user_policy_path(const struct daemon *d)
{
	return d->options.policy ? d->options.policy : POLICY_FILE;
}

/* `may_be_absent`: false if the file changed by itself. An editor or a backup may have moved it
 * away for a moment: only somebody's explicit request (SIGHUP) lifts a policy whose file is
 * gone. */
static void read_policy(struct daemon *d, bool may_be_absent)
{
	struct policy policy;
	struct fault why;
	int r = policy_read(user_policy_path(d), &policy, &why);

	if (r < 0) {
		d->users.policy_there = true;
		log_error("policy.refused", "reason=%s", log_text(why.text).text);
		snprintf(d->users.policy_fault, sizeof(d->users.policy_fault), "%s", why.text);
		return;
	}
	if (r == POLICY_ABSENT && !may_be_absent) {
		if (d->users.policy_there)
			log_warning("policy.away",
				    "path=%s: the file is gone; its contents stay in force until "
				    "it is back or SIGHUP arrives",
				    user_policy_path(d));
		d->users.policy_there = false;
		return;
	}
	d->users.policy_there = r != POLICY_ABSENT;
	/* On a Kubernetes node the cluster hands out the GPUs, unless a policy says otherwise. */
	if (d->options.kubernetes && r == POLICY_ABSENT)
		policy.normally.none = true;
	policy_done(d->users.policy);
	*d->users.policy = policy;
	d->users.policy_known = true;
	d->users.policy_fault[0] = '\0';
	log_info("policy.read", "path=%s entries=%u", user_policy_path(d), policy.entries);
	terms_apply_all(d);
	book_pump(d);
}

static void on_changed(struct file_watch *watch)
{
	read_policy(container_of(watch, struct daemon, users.policy_watch), false);
}

static void watch_policy(struct daemon *d)
{
	struct fault why;

	if (d->users.policy_watch.watch.open)
		return;
	if (file_watch_open(&d->loop, &d->users.policy_watch, user_policy_path(d), on_changed,
			    &why) < 0)
		log_info("policy.unwatched", "reason=%s", log_text(why.text).text);
}

static void on_hang_up(struct loop_signal *signal)
{
	struct daemon *d = container_of(signal, struct daemon, users.policy_signal);

	watch_policy(d);
	read_policy(d, true);
}

static void on_watch_closed(struct file_watch *watch)
{
	(void)watch;
}

static int open_together(struct daemon *d, uint32_t device)
{
	d->users.together[device] = ledger_open(d->book.ledger, device, UINT64_MAX, 0);
	if (!d->users.together[device])
		return -ENOSPC;
	ledger_several(d->users.together[device]);
	return 0;
}

int user_open(struct daemon *d, struct fault *why)
{
	int r = 0;

	list_init(&d->users.all);
	d->users.policy = calloc(1, sizeof(*d->users.policy));
	if (!d->users.policy)
		return fault_set(why, -ENOMEM, "out of memory");
	policy_init(d->users.policy);
	if (!d->options.system)
		return 0;
	for (uint32_t i = 0; r == 0 && i < d->devices; i++)
		r = open_together(d, i);
	if (r == 0)
		r = loop_signal(&d->loop, &d->users.policy_signal, SIGHUP, on_hang_up);
	if (r < 0)
		return fault_set(why, r, "no room for users: %s", strerror(-r));
	watch_policy(d);
	read_policy(d, true);
	return 0;
}

/* ---- users ----------------------------------------------------------------------------------- */

static void on_end_closed(struct loop_timer *timer)
{
	free(container_of(timer, struct user, end));
}

static void on_end_due(struct loop_timer *timer)
{
	(void)timer;
}

static void end(struct user *u)
{
	struct daemon *d = u->daemon;

	list_remove(&u->link);
	d->users.count--;
	flow_done(&u->flow);
	for (uint32_t i = 0; i < d->devices; i++) {
		if (u->account[i])
			remains_end(&u->remains[i]);
		ledger_close(d->book.ledger, take(u->account[i]));
	}
	free(take(u->remains));
	/* Its flow may be the one that is being served. */
	loop_timer_close(&u->end, on_end_closed);
}

void user_close(struct daemon *d)
{
	while (d->users.all.next && !list_empty(&d->users.all))
		end(list_entry(d->users.all.next, struct user, link));
	loop_signal_close(&d->users.policy_signal);
	file_watch_close(&d->users.policy_watch, on_watch_closed);
	if (d->users.policy)
		policy_done(d->users.policy);
	free(take(d->users.policy));
}

void user_maybe_end(struct user *u)
{
	if (u && !u->admins && !u->tenants && list_linked(&u->link))
		end(u);
}

static struct user *look_up(struct daemon *d, uid_t uid)
{
	list_for_each(link, &d->users.all)
	{
		struct user *u = list_entry(link, struct user, link);

		if (u->uid == uid)
			return u;
	}
	return NULL;
}

static int open_account(struct user *u, uint32_t device)
{
	struct daemon *d = u->daemon;

	u->account[device] = ledger_open(d->book.ledger, device, UINT64_MAX, 0);
	if (!u->account[device])
		return -ENOSPC;
	ledger_put_within(u->account[device], d->users.together[device]);
	remains_begin(&u->remains[device], d, device, u->account[device], u->uid);
	return 0;
}

static int open_accounts(struct user *u)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < u->daemon->devices; i++)
		r = open_account(u, i);
	return r;
}

int user_device(struct daemon *d, uint32_t device)
{
	int r = d->options.system ? open_together(d, device) : 0;

	list_for_each(link, &d->users.all)
	{
		if (r == 0)
			r = open_account(list_entry(link, struct user, link), device);
	}
	return r;
}

int user_find(struct daemon *d, uid_t uid, struct user **ret_user)
{
	struct user *u;

	*ret_user = NULL;
	if (!d->options.system || uid == 0 || uid == geteuid())
		return 0;
	*ret_user = look_up(d, uid);
	if (*ret_user)
		return 0;
	if (d->users.count == DAEMON_USERS)
		return -ENOSPC;
	u = calloc(1, sizeof(*u) + d->places * sizeof(u->account[0]));
	if (!u)
		return -ENOMEM;
	u->remains = calloc(d->places, sizeof(u->remains[0]));
	if (!u->remains) {
		free(u);
		return -ENOMEM;
	}
	u->daemon = d;
	u->uid = uid;
	/* Creating this timer never fails in libuv. */
	best_effort(loop_timer_init(&d->loop, &u->end, on_end_due));
	flow_init(&u->flow, &d->flows);
	u->flow.long_lists = true;
	list_append(&d->users.all, &u->link);
	d->users.count++;
	if (open_accounts(u) < 0) {
		end(u);
		return -ENOSPC;
	}
	terms_apply(u);
	*ret_user = u;
	return 0;
}

void user_learn(struct user *u, int fd)
{
	socklen_t size = sizeof(u->groups) - sizeof(u->groups[0]);
	struct ucred who;
	socklen_t who_size = sizeof(who);
	size_t count = 0;

	u->known = true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, u->groups, &size) == 0)
		count = size / sizeof(u->groups[0]);
	else if (errno == ERANGE)
		u->known = false; /* more groups than we consider, which does not mean "in none" */
	if (u->known && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_size) == 0)
		u->groups[count++] = who.gid;
	u->group_count = count;
	terms_apply(u);
	book_pump(u->daemon);
}

bool user_has_seat(const struct user *u)
{
	uint32_t guests = 0;

	if (!u)
		return true;
	list_for_each(link, (struct list *)&u->daemon->tenants.all)
	{
		const struct tenant *t = list_entry(link, struct tenant, link);

		guests += t->user == u ? t->guest_count : 0;
	}
	return guests < USER_GUESTS;
}

bool user_may_ask(const struct user *u)
{
	uint32_t waiting = 0;

	if (!u)
		return true;
	list_for_each(link, (struct list *)&u->daemon->tenants.all)
	{
		const struct tenant *t = list_entry(link, struct tenant, link);
		struct ledger_sums sums;

		for (uint32_t i = 0; t->user == u && i < t->devices; i++) {
			ledger_account_sums(t->device[i].account, &sums);
			waiting += sums.waiting > DAEMON_ASKS_SURE ? sums.waiting - DAEMON_ASKS_SURE
								   : 0;
		}
	}
	return waiting < USER_ASKS;
}
