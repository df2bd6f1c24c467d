/* SPDX-License-Identifier: Apache-2.0 */
/* What holds a pod's namespaces open. */
#include <unistd.h>

int main(void)
{
	for (;;)
		pause();
}
