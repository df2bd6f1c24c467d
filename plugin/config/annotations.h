/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes a container's share from the pod's annotations, within what the configuration allows.
 * Pure; independent of pods, kubelet and scheduler.
 *
 *	DOMAIN/FIELD                a field of share.def, with dashes (mete.dev/on-daemon-loss)
 *	DOMAIN/qos, /on-full, ...   words for several of them: annotations.def
 *	CONTAINER.DOMAIN/...        the same for one container: goes before what is said for the pod
 *
 * Bytes are accepted as in share.h. Of Kubernetes' quantities, 20Gi and 512Mi are accepted, but
 * 4000M, 4k, 1e9 and a bare 25 are not.
 *
 * The limits on requests: memory, weight, guarantee, cap, swap and oversize may be at most the
 * larger of the portion and `most`. escalate, on_daemon_loss, unannounced and strict may not be
 * laxer than the portion or `most`. class and wait are free if neither sets one. A mode is judged
 * by the weight, guarantee and cap that it implies; a portion with mode `equal` stays `equal`
 * unless `most` has another mode. oversize=managed is for containers that have all of a device's
 * memory.
 */
#pragma once

#include "plugin/config/config.h"

struct annotation {
	const char *key, *value;
};

struct annotations_input {
	const struct annotation *entries;
	size_t count;
	const char *container;
	const char *const *containers; /* all of the pod's; any other name is refused */
	size_t container_count;	       /* 0: not known */
	const bool *inits;	       /* of each: it has the slots of others; NULL: none has */
	const char *domain;
	const struct config_share *portion, *most;
	uint64_t device_bytes; /* of the smallest of its devices */
	/* The part of a device's time that is not guaranteed to others, in thousandths. */
	uint32_t guarantee_room_milli;
	/* The part of a device's memory that is not promised to others; and if it is exclusive. */
	uint64_t memory_room, memory_room_alone;
	/* The portion's memory and guarantee are the amounts that were counted for the container:
	 * it gets no more than these, even if `most` allows more. */
	bool counted;
	bool placed; /* mete's scheduler chose the device and honoured its annotations */
	/* Values above the limit are lowered to it instead of refused: for running pods, when
	 * another profile begins. */
	bool lower;
};

enum {
	ANNOTATIONS_MADE = 28, /* the longest text that is made here */
};

struct annotations_share {
	const char *texts[SHARE_FIELDS]; /* borrowed from the input, the configuration, or `made` */
	/* Exclusive use of its devices. The code that assigns the devices must enforce this; the
	 * texts do not contain it. It is allowed only if the container may have all the memory,
	 * unless mete's scheduler has accounted for it.
	 */
	bool exclusive;
	char made[SHARE_FIELDS][ANNOTATIONS_MADE];
};

/* -EINVAL with a sentence that begins with the annotation's key; *ret_share points into itself: it
 * must not be copied. */
must_check int annotations_share(const struct annotations_input *input,
				 struct annotations_share *ret_share, struct fault *why);
