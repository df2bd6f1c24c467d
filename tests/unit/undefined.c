/* SPDX-License-Identifier: Apache-2.0 */
/* Overflows. In a build that looks for undefined behaviour that is its end (meson.build); otherwise
 * it succeeds. */
#include <limits.h>

int main(int argc, char **argv)
{
	volatile int most = INT_MAX;

	(void)argv;
	most += argc;
	return most == 0;
}
