/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of records, one text file each, which are replaced atomically: facts that a program must
 * know again when it is restarted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

struct records_reader {
	/* Is it a record's name? Files with other names are left alone. */
	bool (*names)(const char *name);
	/* Takes in a record. -EINVAL: it is none. */
	int (*read)(void *owner, const char *name, const char *text, size_t size);
	const char *lost; /* the event that is logged of a record that cannot be read */
};

/* Makes the folder if it is missing, and reads its records, in no order. One that is no record, or
 * too large, belongs to nobody and is removed. One that cannot be read now (no memory, no
 * descriptors) is left where it is. A writer's temporary file is removed. */
must_check int records_open(const char *folder, const struct records_reader *reader, void *owner,
			    struct fault *why);

/* text: of the new record; NULL: there was no memory for it. */
must_check int records_write(const char *folder, const char *name, const char *text,
			     struct fault *why);

/* The same of a record that means nothing after a restart of the machine (file_replace_unsynced()).
 */
must_check int records_write_unsynced(const char *folder, const char *name, const char *text,
				      struct fault *why);

/* -errno: it is still there. A record that is not there is no failure. */
must_check int records_remove(const char *folder, const char *name, struct fault *why);
