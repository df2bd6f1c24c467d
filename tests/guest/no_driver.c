/* SPDX-License-Identifier: Apache-2.0 */
/* A library that loads, and is no driver. */
int no_driver(void);

int no_driver(void)
{
	return 0;
}
