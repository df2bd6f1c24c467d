/* SPDX-License-Identifier: Apache-2.0 */
/* shown PATH...: device and inode of what is there, or "-". Static: it runs in any root. */
#include <stdio.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
	struct stat about;

	for (int i = 1; i < argc; i++) {
		if (stat(argv[i], &about) == 0)
			printf("%lu:%lu\n", (unsigned long)about.st_dev,
			       (unsigned long)about.st_ino);
		else
			printf("-\n");
	}
	return 0;
}
