/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that uses a simulated device, for tests of its watchers: sim_tenant BYTES. It holds
 * them and runs kernels of 5 ms one after the other; reports that with a text line; ends with its
 * input.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t end_ns;

	if (argc != 2 || segment_join() < 0)
		return 2;
	device_count_context(0, 1);
	if (device_take(0, strtoull(argv[1], NULL, 10)) != 0)
		return 3;
	end_ns = clock_now_ns();
	for (int i = 0; poll(&input, 1, 0) == 0; i++) {
		struct engine_ticket ticket;

		engine_kernel_begin(0, 0, end_ns, 0, &ticket);
		if (engine_kernel_end(&ticket, 5000000, &end_ns, NULL) != 0)
			return 4;
		if (i == 0) {
			puts("ready");
			fflush(stdout);
		}
	}
	return 0;
}
