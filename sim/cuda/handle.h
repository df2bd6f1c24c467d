/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/handle.h
 * Which handles are alive: a set of addresses, each with its kind, so that garbage from a program
 * is answered with an error instead of being followed.
 *
 * It does not keep anything alive: a program that destroys an object in one thread and uses it in
 * another has the race that it has on a GPU. Thread-safe. Addresses of 0, 1 and 2 (the default
 * streams) are never in the set.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum handle_kind {
	HANDLE_CONTEXT = 1,
	HANDLE_MODULE,
	HANDLE_FUNCTION,
	HANDLE_LIBRARY,
	HANDLE_KERNEL,
	HANDLE_LINK,
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_GRAPH,
	HANDLE_GRAPH_NODE,
	HANDLE_GRAPH_EXEC,
	HANDLE_POOL,
	HANDLE_ALLOCATION, /* physical memory of cuMemCreate */
	HANDLE_ARRAY,
	HANDLE_MIPMAP,
	HANDLE_USER_OBJECT,
	HANDLE_GREEN,	      /* a green context */
	HANDLE_RESOURCE_DESC, /* of the resources of a green context */
};

/* 0, or -ENOMEM. */
must_check int handle_add(enum handle_kind kind, const void *object);
void handle_remove(enum handle_kind kind, const void *object);
bool handle_is(enum handle_kind kind, const void *object);
