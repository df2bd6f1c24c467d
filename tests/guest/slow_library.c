/* SPDX-License-Identifier: Apache-2.0 */
/* Is being loaded, with the loader's lock held, until somebody writes to METE_TEST_SLOW's second
 * descriptor; tells the first one that it is. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void load_slowly(void)
{
	const char *fds = getenv("METE_TEST_SLOW");
	int told, heard;
	char byte = 0;

	if (!fds || sscanf(fds, "%d %d", &told, &heard) != 2 || write(told, &byte, 1) != 1 ||
	    read(heard, &byte, 1) != 1)
		abort();
}
