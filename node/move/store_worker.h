/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes for work that may take for ever, one piece at a time each. They are processes and not
 * threads because a piece may wait where nothing can be killed: the daemon must end nevertheless.
 * They are made when there is work, and a few are kept. They end with the daemon, at the latest
 * when their waiting ends.
 *
 * A piece that is not done within STORE_SLOW_MS is slow: its worker is no longer one of the
 * STORE_AT_WORK, so that others' work goes on. The caller bounds how many may be slow. A piece that
 * is not done within `late_ns` is late.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/loop.h"
#include "node/move/store_file.h"

enum {
	STORE_AT_WORK = 8,   /* at once, without those that are slow */
	STORE_IDLE = 4,	     /* kept */
	STORE_SLOW_MS = 250, /* 20 times as long as a piece takes; or `late_ns`, if that is less */
};

struct store_worker;

struct store_task {
	/* For reading; NULL: not under way. */
	struct store_worker *worker;
	/* With what the work returned; -ECHILD: the worker ended. */
	void (*finished)(struct store_task *task, int error);
	/* It takes longer than others are to wait for. */
	void (*slow)(struct store_task *task);
	/* It takes too long; finished() may follow some day. */
	void (*late)(struct store_task *task);
};

struct store_workers {
	struct loop *loop;
	int (*work)(int fd, const struct store_piece *piece); /* in the worker */
	void (*freed)(struct store_workers *workers);
	uint64_t late_ns;
	uint32_t at_work;
	struct list idle, busy, over; /* over: to be waited for */
	struct store_worker *last;    /* closes files when the daemon ends */
	struct loop_timer timer;
	bool refused; /* somebody was told to come again */
};

/* freed() is called when store_workers_begin() may be tried again. */
must_check int store_workers_init(struct store_workers *workers, struct loop *loop,
				  uint64_t late_ns,
				  int (*work)(int fd, const struct store_piece *piece),
				  void (*freed)(struct store_workers *workers));
/* Waits for nobody. No task is heard of again. */
void store_workers_close(struct store_workers *workers);

/* The file is borrowed: the worker has a descriptor of its own, and closes it when it has done the
 * piece. -EAGAIN: too many are at work; -errno: there is no worker. freed() follows. */
must_check int store_workers_begin(struct store_workers *workers, struct store_task *task, int fd,
				   const struct store_piece *piece);
/* The caller does not want to hear of it any more. */
void store_workers_forget(struct store_task *task);
/* Closes the file, which may be large and nobody else's, while the daemon ends. */
void store_workers_leave(struct store_workers *workers, int fd);
