/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/csv.h"

#include <string.h>
#include <sys/wait.h>

/* Lets gzip unpack `packed` into `out`. gzip writes its own error messages to stderr. */
static int run_gzip(const char *packed, FILE *out)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (child == 0) {
		if (dup2(fileno(out), STDOUT_FILENO) >= 0)
			execlp("gzip", "gzip", "-dc", "--", packed, (char *)NULL);
		_exit(127);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EINVAL;
}

int csv_open(const char *path, FILE **ret_file, struct fault *why)
{
	owned(fclose) FILE *file = fopen(path, "re");
	char packed[4096];
	int r = -errno;

	if (!file && r == -ENOENT &&
	    snprintf(packed, sizeof(packed), "%s.gz", path) < (int)sizeof(packed) &&
	    access(packed, R_OK) == 0) {
		file = tmpfile();
		if (!file)
			return fault_set(why, -errno, "cannot create a temporary file: %s",
					 strerror(errno));
		r = run_gzip(packed, file);
		if (r < 0)
			return fault_set(why, r, "%s: gzip cannot unpack it", packed);
		rewind(file);
	}
	if (!file)
		return fault_set(why, r, "%s: %s", path, strerror(-r));
	*ret_file = take(file);
	return 0;
}
